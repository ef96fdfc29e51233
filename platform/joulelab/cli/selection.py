"""Which devices a command means."""

import sys
from dataclasses import dataclass

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.choice import DEFAULT_SIMULATED
from joulelab.errors import ConfigError, DeviceNotFoundError


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

    uuid: str | None = None  # Which GPU; by default the only one, or the first.
    gpu: str | None = None  # Which GPU to simulate, by its catalogue key; for simulated alone.

    def address(self) -> DeviceAddress:
        """Find it as :func:`choose_address` does."""
        return choose_address(self.device, store=self.store, uuid=self.uuid, gpu=self.gpu)


@dataclass(frozen=True, kw_only=True)
class SomeGpus(Backend):
    """The GPUs that a command is for."""

    uuid: tuple[str, ...] = ()  # Only these GPUs.

    def addresses(self) -> list[DeviceAddress]:
        """Find them as :func:`find_addresses` does."""
        return find_addresses(self.device, self.store, self.uuid)


def find_addresses(device: str, store: str | None, uuids: tuple[str, ...]) -> list[DeviceAddress]:
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
) -> DeviceAddress:
    """Find the one device that the options of a command name, by default the first.

    ``gpu`` is the catalogue key of a GPU to simulate, for ``"simulated"`` alone. Raises ConfigError
    if ``gpu`` is given for another backend, or beside ``uuid``; DeviceNotFoundError if there is no
    such device.
    """
    if gpu is None:
        return find_addresses(device, store, () if uuid is None else (uuid,))[0]
    if device != "simulated" or uuid is not None:
        raise ConfigError(
            f"--gpu names a GPU to simulate, such as {DEFAULT_SIMULATED}; it needs --device "
            "simulated and no --uuid."
        )
    from joulelab.devices.simulated import fleet

    return fleet(gpu, 1, store)[0]


def choose_addresses(
    device: str, *, store: str | None, uuids: tuple[str, ...], gpu: str | None
) -> dict[int, DeviceAddress]:
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
) -> tuple[DeviceAddress, ...]:
    """Find GPUs of one product and machine to run a program together, the first ones there.

    Raises as :func:`choose_address` does, and ConfigError if there are too few.
    """
    from joulelab.devices.choice import find_visible
    from joulelab.devices.simulated import fleet
    from joulelab.study.gpu import StudyGpu, grouped

    first = choose_address(device, store=store, gpu=gpu)
    found = find_visible(first.backend, store) if gpu is None else fleet(gpu, num_gpus, store)
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


def _discover(backend: str, store: str | None) -> tuple[DeviceAddress, ...]:
    found = DEVICES[backend].discover(store)
    if found or backend != "simulated":
        return found
    from joulelab.devices.simulated import fleet

    return fleet(DEFAULT_SIMULATED, 1, store)
