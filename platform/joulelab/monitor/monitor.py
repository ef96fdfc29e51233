"""Windows of energy in any program; with a decorator, every call of a function is one."""

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

from joulelab.core.clock import Clock, MonotonicClock, Ticker
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.process import synchronise
from joulelab.devices.base import Device
from joulelab.errors import ConfigError
from joulelab.monitor.gpu_watch import GpuWatch, Span
from joulelab.monitor.sensors import OwnProcesses, Rapl, counts_processors, find_gpus, hold, let_go
from joulelab.monitor.window import CpuUse, Window

_UNREAD = (
    "The processors were not to be read (cpu=False), or rank 0 of this node reads them, so that "
    "they count once."
)
COUNT_PERIOD_S = 60.0
"""How often open windows are counted, so that old samples can go and no counter turns over."""
MOST_WINDOWS = 10_000

P = ParamSpec("P")
R = TypeVar("R")


class Monitor:
    """Measures windows of a program on the GPUs that it uses, and on the machine's processors.

    ::

        with joulelab.Monitor() as monitor:
            for epoch in range(3):
                with monitor.window(f"epoch {epoch}") as window:
                    train()
                print(window.energy_j, window.duration_s)

    Windows may nest and overlap, and come from several threads. Before a window begins and before
    it ends the program's GPUs are synchronised (``torch.cuda.synchronize``, if PyTorch has them in
    use), so that work is counted where it was asked for.

    Args:
        gpus: Which GPUs: UUIDs or numbers in the driver's order, or one of these. ``None`` for
            those that this process may use (``CUDA_VISIBLE_DEVICES``), under ``torchrun`` for the
            rank's own; so each GPU of a node is sampled once, by its rank, and the processors by
            the first rank. Monitors of one process share what they sample.
        device: How to reach them: ``"auto"`` takes NVML, else DCGM, else ``nvidia-smi``; or the
            name of a backend.
        store: Folder of state or recordings, for backends that are not hardware.
        devices: Devices that are open already, in place of all that; they are not closed.
        synchronise: Whether GPUs are synchronised at both ends of a window.
        cpu: Whether the processors are read as well.
        own: Which processes are this program's; ``None`` for this one and its descendants.
        requested: What was put in force on the GPUs for it; ``None`` for nothing.

    Raises:
        DeviceNotFoundError: If there is no such GPU; names those that there are.
    """

    def __init__(
        self,
        gpus: Sequence[str | int] | str | int | None = None,
        *,
        device: str = "auto",
        store: str | Path | None = None,
        devices: Sequence[Device] | None = None,
        synchronise: bool = True,
        cpu: bool = True,
        own: OwnProcesses | None = None,
        requested: OperatingPoint | None = None,
    ) -> None:
        self._synchronise = synchronise
        self._sources: tuple[Device | DeviceAddress, ...] = (
            find_gpus(device, None if store is None else str(store), gpus)
            if devices is None
            else tuple(devices)
        )
        self._sensors = [hold(source) for source in self._sources]
        self._own = own or OwnProcesses()
        self._requested = requested
        self._watches: list[GpuWatch] = []
        self._rapl = Rapl() if cpu and counts_processors() else None
        self._clock: Clock = self._sensors[0].device.clock if self._sensors else MonotonicClock()
        self._open: dict[Window, _Open] = {}
        self._ended: dict[Window, list[Span]] = {}
        self._lock = threading.Lock()
        self._settling = threading.RLock()  # waits for samples, in which windows go on being begun
        self._ticker: Ticker | None = None

    @property
    def is_open(self) -> bool:
        """Whether it samples, so that windows can begin."""
        return self._ticker is not None

    def start(self) -> Self:
        """Begin to sample; a ``with`` block does so by itself."""
        if self._ticker is None:
            if not self._sensors:  # it was stopped before
                self._sensors = [hold(source) for source in self._sources]
            for sensors in self._sensors:
                self._own.begin(sensors.device)
                self._watches.append(GpuWatch(sensors, self._own, self._requested))
            for watch in self._watches:
                watch.start()
            self._ticker = self._clock.every(COUNT_PERIOD_S, self._count)
        return self

    def stop(self) -> None:
        """End open windows, find what is left to find, and sample no more. Safe to call twice."""
        if self._ticker is None:
            return
        for window in list(self._open):
            self.end(window)
        for watch in self._watches:
            watch.anchor()
        for window in list(self._ended):
            self._settle(window)
        self._ticker.stop()
        self._ticker = None
        for watch in self._watches:
            watch.stop()
        self._watches.clear()
        for source in self._sources:
            let_go(source)
        self._sensors.clear()

    def begin(self, name: str = "window", *, ago_s: float = 0.0) -> Window:
        """Begin a window; :meth:`end` ends it, from any thread.

        Args:
            name: What it is called.
            ago_s: How long ago it began. On a GPU whose driver has no samples from then, it
                begins with the first one; its ``duration_s`` there tells.

        Raises:
            ConfigError: If the monitor is not open.
        """
        if self._ticker is None:
            raise ConfigError("A monitor must be open: use it in a `with` block, or start() it.")
        if self._synchronise:
            synchronise()
        window = Window(name, self._settle)
        opened = _Open(
            since_s=self._clock.now_s() - ago_s,
            spans=[
                Span(start_s=watch.clock.now_s() - ago_s, early=ago_s > 0)
                for watch in self._watches
            ],
            cpu_j={} if self._rapl is None else self._rapl.read_j(),
        )
        with self._lock:
            self._open[window] = opened
        return window

    def end(self, window: Window, *, ago_s: float = 0.0) -> Window:
        """End a window and return it; what it used is found when it is asked for.

        Args:
            window: Which one.
            ago_s: How long ago it ended.

        Raises:
            ConfigError: If it is not an open window of this monitor.
        """
        if self._synchronise:
            synchronise()
        with self._lock:
            opened = self._open.pop(window, None)
            if opened is None:
                raise ConfigError(f"{window!r} is not open on this monitor; end it once.")
            for watch, span in zip(self._watches, opened.spans, strict=True):
                span.stop_s = watch.clock.now_s() - ago_s
            self._ended[window] = opened.spans
        window.close(self._clock.now_s() - ago_s - opened.since_s, self._cpu_use(opened.cpu_j))
        return window

    @contextmanager
    def window(self, name: str = "window") -> Generator[Window]:
        """Measure a ``with`` block; it is measured also if it raises."""
        window = self.begin(name)
        try:
            yield window
        finally:
            self.end(window)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _settle(self, window: Window) -> None:
        """Find what a window used, and all others that have ended."""
        with self._settling:
            with self._lock:
                if window in self._open:
                    raise ConfigError(f"{window!r} is open; what it uses is known at its end.")
                due, self._ended = self._ended, {}
            if not due:
                return
            uses = [
                watch.uses([spans[number] for spans in due.values()])
                for number, watch in enumerate(self._watches)
            ]
            for number, each in enumerate(due):
                each.fill({use.uuid: use for use in (found[number] for found in uses)})

    def _count(self) -> None:
        with self._settling:
            with self._lock:
                spans = [each.spans for each in self._open.values()] + [*self._ended.values()]
            for number, watch in enumerate(self._watches):
                if spans:
                    watch.count([each[number] for each in spans])
        if self._rapl is not None:
            self._rapl.read_j()

    def _cpu_use(self, before_j: Mapping[Path, float]) -> CpuUse:
        if self._rapl is None:
            return CpuUse(reason=_UNREAD)
        return self._rapl.use(before_j, self._rapl.read_j())


class _Open(NamedTuple):
    """A window that has not ended."""

    since_s: float
    spans: list[Span]
    cpu_j: Mapping[Path, float]


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
        def step(batch):
            train(batch)

        step(batch)
        print(step.last.energy_j)
    """
    if function is None:
        return lambda decorated: Measured(decorated, monitor)
    return Measured(function, monitor)
