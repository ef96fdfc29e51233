"""Driving a vendor's command-line tool: one answer, or lines without end."""

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from joulelab.errors import DeviceError, DeviceLostError

T = TypeVar("T")

TIMEOUT_S = 30.0
"""A tool takes 20 ms with a loaded driver and some seconds without one."""


def ask_tool(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, whatever its exit code.

    Raises:
        DeviceError: If the tool is not installed, or does not end.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise DeviceError(f"{command[0]} is not installed, or not on the PATH.") from error
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"{command[0]} did not answer within {TIMEOUT_S:g} s.") from error


class LineStream(Generic[T]):
    """The newest of the values that a long-lived tool prints, one per line and ``period_s``.

    Starting a process for every reading would cost a core; a tool that repeats itself costs one
    line. A reading that has not come is an error, never the one before it. ``parse`` makes a value
    of a line; ``None`` for lines that hold none.
    """

    def __init__(
        self, command: Sequence[str], parse: Callable[[str], T | None], period_s: float
    ) -> None:
        self._command = list(command)
        self._parse = parse
        self._patience_s = max(2.0, 5 * period_s)
        self._fresh_s = max(0.5, 3 * period_s)
        self._arrived = threading.Condition()
        self._newest: tuple[float, T] | None = None
        self._error: Exception | None = None
        self._tail: deque[str] = deque(maxlen=5)
        self._process: subprocess.Popen[str] | None = None

    def latest(self) -> T:
        """Return the newest value, waiting for one if the last is stale; starts the tool at need.

        Raises:
            DeviceLostError: If the tool ended or fell silent; says what it said last.
            DeviceError: If it printed what cannot be understood.
        """
        self._start()
        with self._arrived:
            patience_s = TIMEOUT_S if self._newest is None else self._patience_s
            give_up_s = time.monotonic() + patience_s
            while self._error is None:
                now_s = time.monotonic()
                if self._newest is not None and now_s - self._newest[0] <= self._fresh_s:
                    return self._newest[1]
                if not self._arrived.wait(give_up_s - now_s):
                    raise DeviceLostError(
                        f"{self._command[0]} printed nothing for {patience_s:g} s."
                    )
            raise self._error

    def stop(self) -> None:
        """End the tool. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()
            self._thread.join()
            self._newest = self._error = None

    def _start(self) -> None:
        if self._process is not None:
            return
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except FileNotFoundError as error:
            raise DeviceError(f"{self._command[0]} is not installed.") from error
        self._thread = threading.Thread(
            target=self._follow, args=(self._process,), name="joulelab-tool", daemon=True
        )
        self._thread.start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        error: Exception
        try:
            with process.stdout as lines:  # type: ignore[union-attr]
                for line in lines:
                    self._take(line)
            last_lines = " ".join(self._tail) or "nothing"
            error = DeviceLostError(
                f"{self._command[0]} ended with code {process.wait()}; it said last: {last_lines}"
            )
        except Exception as failure:  # a thread's top frame; latest() raises it
            error = failure
        with self._arrived:
            self._error = error
            self._arrived.notify_all()

    def _take(self, line: str) -> None:
        self._tail.append(line.strip())
        value = self._parse(line)
        if value is not None:
            with self._arrived:
                self._newest = (time.monotonic(), value)
                self._arrived.notify_all()
