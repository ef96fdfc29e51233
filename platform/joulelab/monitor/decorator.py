"""A decorator: every call of a function is a window."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, overload

from joulelab.monitor.monitor import Monitor
from joulelab.monitor.window import Window

P = ParamSpec("P")
R = TypeVar("R")

MOST_WINDOWS = 10_000


class Measured(Generic[P, R]):
    """A function whose calls are windows of a monitor.

    Attributes:
        windows: One per call, the latest last; at most ``MOST_WINDOWS`` are kept.
    """

    def __init__(self, function: Callable[P, R], monitor: Monitor | None) -> None:
        self._function = function
        self._monitor = monitor
        self.windows: deque[Window] = deque(maxlen=MOST_WINDOWS)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function within a window; it is measured also if it raises."""
        if self._monitor is None:
            self._monitor = Monitor()
        with self._monitor.start().window(self._function.__name__) as window:
            self.windows.append(window)
            return self._function(*args, **kwargs)

    @property
    def last(self) -> Window:
        """The window of the latest call.

        Raises:
            IndexError: If it was not called yet.
        """
        return self.windows[-1]


@overload
def measured(function: Callable[P, R]) -> Measured[P, R]: ...
@overload
def measured(*, monitor: Monitor) -> Callable[[Callable[P, R]], Measured[P, R]]: ...


def measured(
    function: Callable[P, R] | None = None, *, monitor: Monitor | None = None
) -> Measured[P, R] | Callable[[Callable[P, R]], Measured[P, R]]:
    """Make every call of a function a window, of ``monitor`` or of one that begins with the first.

    ::

        @joulelab.measured
        def step(batch): ...

        step(batch)
        print(step.last.energy_j)
    """
    if function is None:
        return lambda decorated: Measured(decorated, monitor)
    return Measured(function, monitor)
