"""Several GPUs of this machine, looked at together for as long as somebody watches."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.guard.settings import default_socket_path
from joulelab.live.loans import Loans, read_loans
from joulelab.live.reading import LiveGpu, LiveReading


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What the GPUs of a machine are doing now.

    Attributes:
        gpus: A reading of each, in the driver's order.
        loans: What the clock guard has on loan.
        core_share: Processor time that this process has used since it began to watch, as a share
            of one core; ``None`` at the first look.
    """

    gpus: tuple[LiveReading, ...]
    loans: Loans
    core_share: float | None


class LiveSession:
    """Opens GPUs for reading only, in the program's time, and looks at them when asked.

    Args:
        addresses: The GPUs, by their place in the driver's order.
        guard_socket: Where to ask who holds what; ``None`` takes the guard that studies take.
        slow_period_s: As for :class:`LiveGpu`.

    Raises:
        DeviceError: If a GPU cannot be opened.
    """

    def __init__(
        self,
        addresses: Mapping[int, DeviceAddress],
        *,
        guard_socket: Path | None = None,
        slow_period_s: float = 5.0,
    ) -> None:
        some = next(iter(addresses.values()))
        self._socket = guard_socket or default_socket_path(some)
        self._open = ExitStack()
        self._gpus: list[LiveGpu] = []
        with self._open:
            for index, address in sorted(addresses.items()):
                opened = DEVICES[address.backend].open_in_real_time(address)
                device = self._open.enter_context(closing(opened))
                self._gpus.append(LiveGpu(index, device, slow_period_s=slow_period_s))
            self._open = self._open.pop_all()
        self._began: tuple[float, float] | None = None

    def look(self) -> LiveView:
        """Read every GPU once, and who holds it."""
        gpus = tuple(gpu.read() for gpu in self._gpus)
        loans = read_loans(self._socket)
        return LiveView(gpus=gpus, loans=loans, core_share=self._core_share())

    def close(self) -> None:
        """Let go of the GPUs. Safe to call twice."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _core_share(self) -> float | None:
        now = (time.monotonic(), time.process_time())
        if self._began is None:
            self._began = now
            return None
        return (now[1] - self._began[1]) / (now[0] - self._began[0])
