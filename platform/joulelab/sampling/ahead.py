"""Read ahead for the next trial where it leaves the numbers of this one alone."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from joulelab.core.configuration import Configuration
from joulelab.errors import JouleLabError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.read_ahead import Reading


class Ahead:
    """Has what the next program loads read from when the present one is ready, but in windows.

    GPU and host are idle, or warm up, meanwhile: there a program that waits for its host may lose
    some of its pace where no core is free, which no number sees. ``hosted`` returns a workload as
    it runs on the device. All but :meth:`expect` is called by the thread that measures.
    """

    def __init__(self, hosted: Callable[[Workload[Any]], Workload[Any]]) -> None:
        self._hosted = hosted
        self._expected: Configuration | None = None
        self._read: Configuration | None = None  # what is read for
        self._reading: Reading | None = None

    def expect(self, configuration: Configuration | None) -> None:
        """Note what comes next, ``None`` if nobody knows; from any thread."""
        self._expected = configuration

    def ready(self, configuration: Configuration) -> None:
        """Begin to read for what comes next, or go on, now that ``configuration`` is loaded."""
        expected, known = self._expected, (configuration, self._read)
        if expected is None or any(each and each.program == expected.program for each in known):
            return
        self.close()
        self._read = expected
        with suppress(JouleLabError, OSError):  # its own trial says what is wrong with it
            workload = WORKLOADS[expected.workload].from_knobs(dict(expected.knobs))
            self._reading = self._hosted(workload).read_ahead()

    @contextmanager
    def halted(self) -> Generator[None]:
        """Read nothing within a ``with`` block."""
        if self._reading is None:
            yield
            return
        self._reading.halt()
        try:
            yield
        finally:
            self._reading.go_on()

    def close(self) -> None:
        """Read no more, as before what was read is loaded. Safe to call twice."""
        reading, self._reading, self._read = self._reading, None, None
        if reading is not None:
            reading.close()
