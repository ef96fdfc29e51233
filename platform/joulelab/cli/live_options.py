"""Which GPUs to watch, for the commands that do."""

from dataclasses import dataclass
from pathlib import Path

from joulelab.cli.selection import choose_addresses
from joulelab.live.session import LiveSession


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """The GPUs that a command watches.

    Attributes:
        device: How to talk to them: nvml, dcgm, smi, simulated or replay; auto takes the best.
        uuid: Only these GPUs.
        gpu: Which GPU to simulate, by its catalogue key; for simulated alone.
        store: Folder of driver state or recordings, for devices that are not hardware.
        guard_socket: Clock guard to ask who holds what; by default the one that studies take.
    """

    device: str = "auto"
    uuid: tuple[str, ...] = ()
    gpu: str | None = None
    store: str | None = None
    guard_socket: Path | None = None

    def open_session(self, *, slow_period_s: float = 5.0) -> LiveSession:
        """Open the GPUs that were named, to be closed by the caller."""
        addresses = choose_addresses(self.device, store=self.store, uuids=self.uuid, gpu=self.gpu)
        return LiveSession(addresses, guard_socket=self.guard_socket, slow_period_s=slow_period_s)
