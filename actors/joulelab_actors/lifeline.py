"""What becomes of a study whose Ray dies under it: a line that says how to go on, and the end."""

import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import ray
from ray._private import worker

from joulelab.tracking.discreet import discreet
from joulelab_actors.session import answers

DIED = 1
_VITAL = ("gcs_server", "raylet")
_LOOK_S = 0.5
_PATIENCE_S = 30.0
"""After 60 s without its head Ray ends the process by itself, without a word about the results."""


class Lifeline(AbstractContextManager["Lifeline"]):
    """Watches over Ray from a thread of its own while a study runs.

    Whatever waits for a Ray that is gone waits for ever, or is ended by Ray's own library from
    within. So this ends the process first: results are durable, and leases of clocks end with the
    processes that hold them.

    Args:
        study: Name of the study, for the line.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="joulelab-lifeline", daemon=True)

    def __enter__(self) -> "Lifeline":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        node: Any = worker._global_node  # noqa: SLF001 - Ray tells nowhere else what it started
        own = [info.process for name in _VITAL for info in node.all_processes.get(name, ())]
        address = ray.get_runtime_context().gcs_address
        answered_s = time.monotonic()
        while not self._over.wait(_LOOK_S if own else _PATIENCE_S / 6):
            if any(process.poll() is not None for process in own):
                self._end("one of its processes was killed or crashed", node)
            if own or answers(address, _PATIENCE_S / 6):
                answered_s = time.monotonic()
            elif time.monotonic() - answered_s > _PATIENCE_S:
                self._end(f"its head at {address} has not answered for {_PATIENCE_S:g} s", node)

    def _end(self, why: str, node: Any) -> None:
        shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a moving bar hides the cursor
        sys.stderr.write(
            f"{shown}{Path(sys.argv[0]).stem}: Ray is gone: {why}. All that was measured is kept; "
            f"start the same command again with --study {discreet(self._study)} to go on.\n"
        )
        sys.stderr.flush()
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        os._exit(DIED)
