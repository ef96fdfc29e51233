"""Which way to talk to the GPUs of this machine."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.simulated.store import default_root
from joulelab.errors import DeviceError, DeviceNotFoundError

_PREFERENCE = ("nvml", "dcgm", "smi")
"""Every way to talk to a GPU that is there; the best first."""

_LOSSES = {
    "dcgm": "energy comes from DCGM's counter, and there are no buffered power samples",
    "smi": "energy comes from polled power, since nvidia-smi has no energy counter",
}


def is_hardware(address: DeviceAddress) -> bool:
    """Return whether programs run on the device itself, and not in arithmetic or from a record."""
    return address.backend in _PREFERENCE


def with_store(address: DeviceAddress) -> DeviceAddress:
    """Return ``address`` so that another process finds the same device, whatever folder it is in.

    Raises:
        DeviceError: If this user's own folder of state cannot be had.
    """
    if is_hardware(address):
        return address
    store = default_root() if address.store is None else Path(address.store)
    return replace(address, store=str(store.absolute()))


class Choice(NamedTuple):
    """A backend, and the sentence to say about it.

    Attributes:
        name: Registry name of the device class.
        why: Why this one, and what is lost by it; to be said aloud where it is a fallback.
    """

    name: str
    why: str

    @property
    def is_fallback(self) -> bool:
        """Whether something better was tried and failed."""
        return self.name != _PREFERENCE[0]


def choose_backend() -> Choice:
    """Choose the best backend that finds a GPU here: NVML, then DCGM, then ``nvidia-smi``.

    Raises:
        DeviceNotFoundError: If none does; says why each failed.
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
