"""Errors as one line and an exit code, for commands and for experiments' scripts."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joulelab.errors import JouleLabError

BAD_REQUEST = 2
INTERRUPTED = 130
UNREAD = 141


def exit_code(run: Callable[[], int], *, name: str) -> int:
    """Call ``run`` and return its exit code; an error becomes one line and a code of its own.

    Args:
        run: What to do.
        name: Who says so, at the start of the line.

    Returns:
        What ``run`` returned, 2 if the request was wrong or the system refused it, or 130 if it
        was interrupted.
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except BrokenPipeError:  # whoever read has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (JouleLabError, OSError) as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt as interrupt:
        print(f"{name}: {f'interrupted. {one_line(interrupt)}'.rstrip()}", file=sys.stderr)
        return INTERRUPTED


def one_line(told: object) -> str:
    """Return the text of ``told`` as one line, control characters and the like escaped.

    What a file or another program wrote could move the cursor of a terminal otherwise.
    """
    words = " ".join(str(told).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def quiet_start(module: str) -> None:
    """Have Ctrl-C end a script that is still importing with one line, until it runs.

    Nothing was begun by then, and some libraries take an interruption of their import for another
    error, or for none.

    Args:
        module: ``__name__`` of the caller, of which nothing is heeded but a script's.
    """
    if module == "__main__" and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


@contextmanager
def quiet_imports() -> Generator[None]:
    """Import within this as :func:`quiet_start` has it."""
    before = signal.getsignal(signal.SIGINT)
    quiet_start("__main__")
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, before)


def _end(_number: int, _frame: Any) -> None:
    sys.stderr.write(f"{Path(sys.argv[0]).stem}: interrupted.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
