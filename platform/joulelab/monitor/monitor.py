"""Windows of energy in any program."""

import os
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.devices.choice import find_visible
from joulelab.errors import ConfigError, DeviceNotFoundError
from joulelab.monitor.cpu import Rapl
from joulelab.monitor.gpu_watch import GpuWatch, Span
from joulelab.monitor.processes import OwnProcesses
from joulelab.monitor.synchronise import synchronise
from joulelab.monitor.window import CpuUse, Window
from joulelab.sampling.clock import Clock, MonotonicClock, Ticker

COUNT_PERIOD_S = 60.0
"""How often open windows are counted, so that old samples can go and no counter turns over."""


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
        gpus: Which GPUs: UUIDs or numbers in the driver's order. ``None`` for those that this
            process may use (``CUDA_VISIBLE_DEVICES``), under ``torchrun`` for the rank's own; so
            each GPU of a node is sampled once, by its rank.
        device: How to reach them: ``"auto"`` takes NVML, else DCGM, else ``nvidia-smi``; or the
            name of a backend.
        store: Folder of state or recordings, for backends that are not hardware.
        devices: Devices that are open already, in place of all that; they are not closed.
        synchronise: Whether GPUs are synchronised at both ends of a window.
        cpu: Whether the processors are read as well.
        own: Which processes are this program's; ``None`` for this one and its descendants.

    Raises:
        DeviceNotFoundError: If there is no such GPU; names those that there are.
    """

    def __init__(
        self,
        gpus: Sequence[str | int] | None = None,
        *,
        device: str = "auto",
        store: str | Path | None = None,
        devices: Sequence[Device] | None = None,
        synchronise: bool = True,
        cpu: bool = True,
        own: OwnProcesses | None = None,
    ) -> None:
        self._synchronise = synchronise
        self._opened: list[Device] = []
        if devices is None:
            addresses = _addresses(device, None if store is None else str(store), gpus)
            self._opened = [_opened(address) for address in addresses]
        self._devices = list(self._opened if devices is None else devices)
        self._own = own or OwnProcesses()
        self._watches: list[GpuWatch] = []
        self._rapl = Rapl() if cpu else None
        self._clock: Clock = self._devices[0].clock if self._devices else MonotonicClock()
        self._open: dict[Window, _Open] = {}
        self._ended: dict[Window, list[Span]] = {}
        self._lock = threading.Lock()
        self._settling = threading.RLock()  # waits for samples, in which windows go on being begun
        self._ticker: Ticker | None = None

    def start(self) -> Self:
        """Begin to sample; a ``with`` block does so by itself."""
        if self._ticker is None:
            for device in self._devices:
                self._own.begin(device)
                self._watches.append(GpuWatch(device, self._own))
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
        for device in self._opened:
            device.close()

    def begin(self, name: str = "window") -> Window:
        """Begin a window; :meth:`end` ends it, from any thread.

        Raises:
            ConfigError: If the monitor is not open.
        """
        if self._ticker is None:
            raise ConfigError("A monitor must be open: use it in a `with` block, or start() it.")
        if self._synchronise:
            synchronise()
        window = Window(name, self._settle)
        opened = _Open(
            since_s=self._clock.now_s(),
            spans=[Span(start_s=watch.clock.now_s()) for watch in self._watches],
            cpu_j={} if self._rapl is None else self._rapl.read_j(),
        )
        with self._lock:
            self._open[window] = opened
        return window

    def end(self, window: Window) -> Window:
        """End a window and return it; what it used is found when it is asked for.

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
                span.stop_s = watch.clock.now_s()
            self._ended[window] = opened.spans
        window.close(self._clock.now_s() - opened.since_s, self._cpu_use(opened.cpu_j))
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            return CpuUse(reason="The processors were not to be read (cpu=False).")
        return self._rapl.use(before_j, self._rapl.read_j())


class _Open:
    """A window that has not ended."""

    __slots__ = ("cpu_j", "since_s", "spans")

    def __init__(self, *, since_s: float, spans: list[Span], cpu_j: Mapping[Path, float]) -> None:
        self.since_s = since_s
        self.spans = spans
        self.cpu_j = cpu_j


def _addresses(
    device: str, store: str | None, gpus: Iterable[str | int] | None
) -> tuple[DeviceAddress, ...]:
    there = find_visible(device, store)
    if gpus is None:
        rank = os.environ.get("LOCAL_RANK")
        return there if rank is None or len(there) == 1 else (_chosen(int(rank), there),)
    chosen = [_chosen(gpu, there) for gpu in gpus]
    return tuple(dict.fromkeys(chosen))


def _chosen(gpu: str | int, there: Sequence[DeviceAddress]) -> DeviceAddress:
    for number, address in enumerate(there):
        if gpu in (number, address.uuid):
            return address
    known = ", ".join(f"{number} ({address.uuid})" for number, address in enumerate(there))
    raise DeviceNotFoundError(f"gpus must be of those that are there, got {gpu!r}: {known}.")


def _opened(address: DeviceAddress) -> Device:
    if address.backend == "simulated":  # it must live in the program's time, not in its own
        from joulelab.devices.simulated import SimulatedDevice
        from joulelab.devices.simulated.store import DriverStore

        state = DriverStore(address.store).state(address.uuid)
        return SimulatedDevice(state, clock=MonotonicClock())
    return DEVICES[address.backend].open(address)
