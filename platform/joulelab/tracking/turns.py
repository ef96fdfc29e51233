"""Turns of those who write to one embedded store.

SQLite has no queue: whoever finds the database taken looks again, later each time, and on a busy
machine others come between until its patience ends.
"""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import IO

from joulelab.errors import TrackingError

TURN_S = 60.0
"""Longest wait for a turn, of which a batch takes some seconds on a very busy machine."""
_LOOK_S = 0.01


@contextmanager
def turn(path: Path | None) -> Generator[None]:
    """Have the turn at a SQLite file for the length of a ``with`` block; it must not be had yet.

    One of those who wait is the next, so that who had the turn has it again only after them. The
    kernel frees both locks however a process ends. ``None`` is no such file and knows no turns, nor
    does a folder without locks, or one that cannot be written to.

    Raises:
        TrackingError: If others have it for too long.
    """
    with ExitStack() as having:
        if path is not None and path.parent.is_dir():
            give_up_s = time.monotonic() + TURN_S
            with ExitStack() as waiting:
                _lock(path, "next", give_up_s, waiting)
                _lock(path, "turn", give_up_s, having)
        yield


def _lock(path: Path, name: str, give_up_s: float, held: ExitStack) -> None:
    """Hold a lock beside a file until ``held`` is closed."""
    try:
        file = held.enter_context(path.with_name(f"{path.name}-{name}").open("a"))
        while not _is_taken(file):
            if time.monotonic() > give_up_s:
                raise TrackingError(
                    f"A turn to write to the MLflow store {path} was to come within {TURN_S:g} s, "
                    "but other processes write to it all the time, or one of them hangs; "
                    "`joulelab sync` delivers later."
                )
            time.sleep(_LOOK_S)
    except OSError:
        return  # what keeps from writing, the store itself says


def _is_taken(file: IO[str]) -> bool:
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True
