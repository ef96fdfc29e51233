"""Ctrl-C and SIGTERM end the measuring of a study, not the study: it concludes from what it has."""

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from joulelab.errors import JouleLabError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE_S = 1.0
"""Signals within this time are one: ``timeout`` and schedulers send theirs twice."""

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption(AbstractContextManager["Interruption"]):
    """Notes the first signal that comes while it is entered; a later one interrupts at once.

    What is ignored stays ignored. Outside the main thread, to which Python hands all signals, it
    notes nothing.
    """

    def __init__(self) -> None:
        self.noted = False
        self._noted_s = 0.0
        self._before: dict[signal.Signals, _Handler] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            heeded = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # A handler that was not set from Python is known as None.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def excuses(self) -> Generator[None]:
        """Conclude within this: what an interrupted study cannot say is no fault of its own.

        Raises:
            KeyboardInterrupt: Instead of an error, if a signal came.
        """
        try:
            yield
        except JouleLabError as error:
            if self.noted:
                raise KeyboardInterrupt(str(error)) from error
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if not self.noted:
            self.noted, self._noted_s = True, now_s
        elif now_s > self._noted_s + _ONE_S:
            raise KeyboardInterrupt
