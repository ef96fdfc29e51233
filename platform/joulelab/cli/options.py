"""Options that commands share: which GPUs, which clocks, a program after two dashes.

Imports little, so that a program starts at once.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import tyro

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, DeviceNotFoundError

if TYPE_CHECKING:  # these would bring numpy before a program has started
    from joulelab.core.device import DeviceAddress
    from joulelab.devices.base import Device
    from joulelab.devices.control import ClosableControl
    from joulelab.running.measure import InForce


@dataclass(frozen=True, kw_only=True)
class Backend:
    """How a command talks to GPUs."""

    # How to talk to GPUs: nvml, dcgm, smi, simulated or replay; auto takes the best that finds one.
    device: str = "auto"
    # Folder of driver state or recordings, for devices that are not hardware.
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class OneGpu(Backend):
    """The GPU that a command is for."""

    uuid: str | None = None  # Which GPU; by default the first that CUDA_VISIBLE_DEVICES allows.
    gpu: str | None = None  # Which GPU to simulate, by its catalogue name; for simulated alone.

    def address(self) -> "DeviceAddress":
        """Find it as :func:`choose_address` does."""
        return choose_address(self.device, store=self.store, uuid=self.uuid, gpu=self.gpu)


@dataclass(frozen=True, kw_only=True)
class SomeGpus(Backend):
    """The GPUs that a command is for."""

    uuid: tuple[str, ...] = ()  # Only these GPUs.

    def addresses(self) -> "list[DeviceAddress]":
        """Find them as :func:`find_addresses` does."""
        return find_addresses(self.device, self.store, self.uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOptions:
    """What a command puts in force on its GPUs."""

    sm_clock_mhz: int | None = None  # Locked SM clock; by default the driver's own.
    mem_clock_mhz: int | None = None  # Locked memory clock; by default the driver's own.
    # Board power limit; by default the driver's own. Under --observe-only it must be in force
    # already.
    power_limit_w: float | None = None
    observe_only: bool = False  # Call no setter, ever: measure at the clocks that there are.
    # Socket of the clock guard that clocks are borrowed from; by default the system's, or else one
    # that is started for it.
    guard_socket: Path | None = None

    @property
    def point(self) -> OperatingPoint:
        """What is asked for; ConfigError if it locks clocks, which an observer cannot."""
        point = OperatingPoint(
            sm_clock_mhz=self.sm_clock_mhz,
            mem_clock_mhz=self.mem_clock_mhz,
            power_limit_w=self.power_limit_w,
        )
        if self.observe_only and point.locks_clocks:
            raise ConfigError(
                "--observe-only measures at the driver's own clocks; drop it, or drop "
                "--sm-clock-mhz and --mem-clock-mhz."
            )
        return point

    def borrow(self, stack: ExitStack, gpus: "Sequence[DeviceAddress]", note: str) -> "InForce":
        """Put the point in force on ``gpus`` until ``stack`` ends."""
        from joulelab.running.measure import borrow
        from joulelab.study.abstract_lab import check_guard_socket

        check_guard_socket(self.guard_socket)
        return borrow(
            stack,
            self.point,
            gpus,
            observe_only=self.observe_only,
            guard_socket=self.guard_socket,
            note=note,
        )

    @contextmanager
    def control(
        self, address: "DeviceAddress", device: "Device", *, note: str
    ) -> "Generator[ClosableControl]":
        """Yield who may turn the knobs of a device: a lease of the guard, or nobody."""
        from joulelab.guard import GuardClient, ObserveOnly

        if self.observe_only:
            yield ObserveOnly(device, address, guard_socket=self.guard_socket)
            return
        with GuardClient(self.guard_socket).lease(address, note=note) as lease:
            yield lease


def find_addresses(device: str, store: str | None, uuids: tuple[str, ...]) -> "list[DeviceAddress]":
    """Find the devices that the options of a command name, all without ``uuids``.

    Of ``"auto"`` it is the best backend that finds a GPU; a fallback is printed on standard error.
    Raises UnknownNameError if there is no such backend; names the closest; DeviceNotFoundError if a
    device is not there; names those that are.
    """
    found = _discover(_backend(device), store)
    if not found:
        raise DeviceNotFoundError(f"{device} finds no device" + (f" in {store}." if store else "."))
    there = {address.uuid: address for address in found}
    missing = [uuid for uuid in uuids if uuid not in there]
    if missing:
        raise DeviceNotFoundError(
            f"uuid must be of a device that is there, got {', '.join(missing)}; there are: "
            f"{', '.join(there)}."
        )
    return [there[uuid] for uuid in uuids] if uuids else list(found)


def choose_address(
    device: str, *, store: str | None = None, uuid: str | None = None, gpu: str | None = None
) -> "DeviceAddress":
    """Find the one device that the options of a command name, by default the first it may use.

    Of simulated GPUs the default is the same whatever others a store keeps from earlier. ``gpu`` is
    the catalogue key of a GPU to simulate, for ``"simulated"`` alone. Raises ConfigError if ``gpu``
    is given for another backend, or beside ``uuid``; DeviceNotFoundError if there is no such
    device.
    """
    from joulelab.devices.choice import DEFAULT_SIMULATED, default_simulated, usable

    if device == "simulated" and gpu is None and uuid is None:
        return default_simulated(store)[0]
    if gpu is None:
        found = find_addresses(device, store, () if uuid is None else (uuid,))
        return (*usable(found), *found)[0]  # of a server that sees more, any
    from joulelab.devices.simulated import fleet

    if device != "simulated" or uuid is not None:
        raise ConfigError(
            f"--gpu names a GPU to simulate, such as {DEFAULT_SIMULATED}; it needs --device "
            "simulated and no --uuid."
        )
    return fleet(gpu, 1, store)[0]


def choose_addresses(
    device: str, *, store: str | None, uuids: tuple[str, ...], gpu: str | None
) -> "dict[int, DeviceAddress]":
    """Find the devices that the options of a command name, by their place in the driver's order.

    Raises as :func:`find_addresses` and :func:`choose_address` do.
    """
    if gpu is not None:
        uuid = uuids[0] if uuids else None
        return {0: choose_address(device, store=store, uuid=uuid, gpu=gpu)}
    found = find_addresses(device, store, ())
    wanted = find_addresses(found[0].backend, store, uuids)
    return {found.index(address): address for address in wanted}


def choose_group(
    device: str, *, store: str | None = None, gpu: str | None = None, num_gpus: int
) -> "tuple[DeviceAddress, ...]":
    """Find GPUs of one product and machine to run a program together, the first ones there.

    Raises as :func:`choose_address` does, and ConfigError if there are too few.
    """
    from joulelab.devices.choice import default_simulated, find_visible
    from joulelab.devices.simulated import fleet
    from joulelab.study.gpu import StudyGpu, grouped

    first = choose_address(device, store=store, gpu=gpu)
    if gpu is not None:
        found = fleet(gpu, num_gpus, store)
    elif device == "simulated":
        found = default_simulated(store, num_gpus)
    else:
        found = find_visible(first.backend, store)
    group = grouped([StudyGpu.of(address) for address in found], num_gpus)[0]
    return group.address, *group.partners


def _backend(device: str) -> str:
    from joulelab.devices.choice import choose_backend

    if device != "auto":
        return device
    choice = choose_backend()
    if choice.is_fallback:
        print(choice.why, file=sys.stderr)
    return choice.name


def _discover(backend: str, store: str | None) -> "tuple[DeviceAddress, ...]":
    from joulelab.devices import DEVICES
    from joulelab.devices.choice import default_simulated

    found = DEVICES[backend].discover(store)
    if backend != "simulated":
        return found
    _name_unknown(store)
    return found or default_simulated(store)


def _name_unknown(store: str | None) -> None:
    """Print what a store keeps and nothing can simulate, to be left out."""
    from joulelab.devices.simulated import DriverStore

    for state in DriverStore(store).unknown():
        print(f"Left out: {state.unknown_words()}", file=sys.stderr)


def check_places(json: str | None, mlflow: str | None) -> None:
    """Refuse places for a result that cannot be written to, before anything is run."""
    if json not in (None, "-") and not Path(json or "").absolute().parent.is_dir():
        raise ConfigError(f"--json must name a file in a folder that is there, got {json}.")
    if mlflow is not None:
        from joulelab.tracking.mlflow_store import usable_uri

        usable_uri(mlflow)


def write_result(text: str, target: str) -> None:
    """Write a result to a file, or with ``-`` to the standard output."""
    from joulelab.tracking.durable import write_whole

    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(Path(target), text)


Command = TypeVar("Command")
_SEPARATOR = "--"


def parse_before_dashes(
    kind: type[Command], arguments: Sequence[str], *, prog: str
) -> tuple[Command, tuple[str, ...]]:
    """Read the options before two dashes; return them and the words that follow."""
    words = list(arguments)
    at = words.index(_SEPARATOR) if _SEPARATOR in words else len(words)
    config = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(kind, args=words[:at], prog=prog, config=config), tuple(words[at + 1 :])
