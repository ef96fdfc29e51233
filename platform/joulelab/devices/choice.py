"""Which way to talk to the GPUs of this machine."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.errors import DeviceError, DeviceNotFoundError
from joulelab.registry import unknown_name

_PREFERENCE = ("nvml", "dcgm", "smi")
"""Every way to talk to a GPU that is there; the best first."""

_NOT_HARDWARE = ("simulated", "replay")

DEFAULT_SIMULATED = "h200_sxm"
"""What is simulated where nothing else was asked for."""

_LOSSES = {
    "dcgm": "energy comes from DCGM's counter, and there are no buffered power samples",
    "smi": "energy comes from polled power, since nvidia-smi has no energy counter",
}


def check_backend(name: str) -> None:
    """Refuse what is neither a backend nor ``"auto"``.

    Raises UnknownNameError, which names the closest.
    """
    if name not in (known := ("auto", *DEVICES)):
        raise unknown_name("device", name, known)


def is_hardware(address: DeviceAddress) -> bool:
    """Return whether programs run on the device itself, and not in arithmetic or from a record."""
    if address.backend in _PREFERENCE or address.backend in _NOT_HARDWARE:
        return address.backend in _PREFERENCE  # known without importing the backend
    return DEVICES[address.backend].is_hardware


def with_store(address: DeviceAddress) -> DeviceAddress:
    """Return ``address`` so that another process finds the same device, whatever folder it is in.

    Raises DeviceError if this user's own folder of state cannot be had.
    """
    if is_hardware(address):
        return address
    from joulelab.devices.simulated.store import default_root

    store = default_root() if address.store is None else Path(address.store)
    return replace(address, store=str(store.absolute()))


def find_visible(device: str, store: str | None = None) -> tuple[DeviceAddress, ...]:
    """Find the devices that this process may use, in the driver's order.

    ``device`` names a backend, or is ``"auto"`` for the best that finds a GPU. ``store`` is the
    folder of state or recordings, for backends that are not hardware. Raises DeviceNotFoundError if
    there is none; says what to do.
    """
    found = DEVICES[choose_backend().name if device == "auto" else device].discover(store)
    if not found and device == "simulated":
        return default_simulated(store)
    if not (allowed := usable(found)):
        hidden = f" ({len(found)} are hidden by CUDA_VISIBLE_DEVICES)" if found else ""
        raise DeviceNotFoundError(f"{device} finds no GPU that this process may use{hidden}.")
    return allowed


def find_default(
    device: str, store: str | None = None, *, num_simulated: int = 1
) -> tuple[DeviceAddress, ...]:
    """Find the devices that are meant where none is named, as :func:`find_visible` finds all.

    Of simulated GPUs these are all in ``store``. Without one they are ``num_simulated`` of the
    default kind, since this user's own folder keeps every GPU that was ever simulated.
    """
    if device == "simulated" and store is None:
        return default_simulated(None, num_simulated)
    return find_visible(device, store)


def default_simulated(store: str | None, num_gpus: int = 1) -> tuple[DeviceAddress, ...]:
    """Return what is simulated where no GPU is named, made if it is not there yet."""
    from joulelab.devices.simulated import fleet

    return fleet(DEFAULT_SIMULATED, num_gpus, store)


def usable(found: Sequence[DeviceAddress]) -> tuple[DeviceAddress, ...]:
    """Return those of the devices found that this process may use; all if they are no hardware."""
    if not all(map(is_hardware, found)):
        return tuple(found)
    return tuple(visible(found, os.environ.get("CUDA_VISIBLE_DEVICES")))


def visible(addresses: Sequence[DeviceAddress], setting: str | None) -> list[DeviceAddress]:
    """Return the devices that ``CUDA_VISIBLE_DEVICES`` allows, in the driver's order.

    NVML shows every GPU of a machine, also those that a scheduler gave to somebody else.
    ``setting`` is the value of the variable, indices or UUIDs (or their beginnings); ``None`` if it
    is not set, which allows all.
    """
    if setting is None:
        return list(addresses)
    wanted = [entry.strip() for entry in setting.split(",") if entry.strip()]
    return [
        address
        for index, address in enumerate(addresses)
        if any(
            entry == str(index) or (not entry.isdigit() and address.uuid.startswith(entry))
            for entry in wanted
        )
    ]


class Choice(NamedTuple):
    """A backend, and the sentence to say about it."""

    name: str  # registry name of the device class
    why: str  # why this one, and what is lost by it; to be said aloud where it is a fallback

    @property
    def is_fallback(self) -> bool:
        """Whether something better was tried and failed."""
        return self.name != _PREFERENCE[0]


def choose_backend() -> Choice:
    """Choose the best backend that finds a GPU here: NVML, then DCGM, then ``nvidia-smi``.

    Raises DeviceNotFoundError if none does; says why each failed.
    """
    failures: list[str] = []
    for name in _PREFERENCE:
        try:
            found = DEVICES[name].discover()
        except DeviceError as error:
            failures.append(f"{name}: {error}")
            continue
        if found:
            return Choice(name, _sentence(name, len(found), failures))
        failures.append(f"{name}: no GPU found.")
    raise DeviceNotFoundError(
        f"This machine shows no NVIDIA GPU. {' '.join(failures)} "
        "Without a GPU, use --device simulated or --device replay."
    )


def _sentence(name: str, num_gpus: int, failures: list[str]) -> str:
    found = f"{name} finds {num_gpus} GPU{'s' if num_gpus > 1 else ''}"
    if not failures:
        return f"{found}."
    return f"Falling back to {name}: {_LOSSES[name]}. {found}. Before it, {' '.join(failures)}"


def open_device(address: DeviceAddress) -> Device:
    """Open the device at ``address``."""
    return DEVICES[address.backend].open(address)


def open_in_real_time(address: DeviceAddress) -> Device:
    """Open the device at ``address`` so that its time is the program's."""
    return DEVICES[address.backend].open_in_real_time(address)
