"""The NVML library: opening it, finding a GPU in it by UUID, asking it things, and its errors.

``nvidia-smi`` exits with the same error codes.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]

from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    DeviceUnsupportedError,
    JouleLabError,
)

T = TypeVar("T")

HOW_TO_GET_PERMISSION = (
    "It takes CAP_SYS_ADMIN on the host (root): have the site run `joulelab guard` as root on "
    "the node and lease the clocks from it, or measure at the driver's clocks with --observe-only."
)

_ERRORS: dict[int, type[JouleLabError]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: DeviceUnsupportedError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: DeviceUnsupportedError,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: DeviceUnsupportedError,
    pynvml.NVML_ERROR_DEPRECATED: DeviceUnsupportedError,
    pynvml.NVML_ERROR_NO_PERMISSION: DevicePermissionError,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED: ConfigError,
    pynvml.NVML_ERROR_NOT_FOUND: DeviceNotFoundError,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: DeviceNotFoundError,
    pynvml.NVML_ERROR_GPU_IS_LOST: DeviceLostError,
    pynvml.NVML_ERROR_RESET_REQUIRED: DeviceLostError,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DeviceLostError,
    pynvml.NVML_ERROR_UNINITIALIZED: DeviceLostError,
}


def error_for(code: int, what: str, driver_message: str) -> JouleLabError:
    """Build the error for an NVML return code."""
    message = f"{what} failed: NVML says {driver_message!r} (code {code})."
    error = _ERRORS.get(code, DeviceError)
    if error is DevicePermissionError:
        message = f"{message} {HOW_TO_GET_PERMISSION}"
    return error(message)


def call(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call an NVML function and raise the package's error if it fails."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise error_for(error.value, what, str(error)) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise DeviceUnsupportedError(f"{what} failed: the driver is too old: {error}") from error


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handle:
    """One GPU as the library knows it."""

    uuid: str  # its UUID
    native: Any  # NVML's own handle

    def ask(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        """Call ``function(native, *arguments)``."""
        return call(f"Reading {what} of {self.uuid}", function, self.native, *arguments)

    def ask_if_supported(self, what: str, function: Callable[..., T], *arguments: Any) -> T | None:
        """Do the same, with ``None`` where this device or driver has no such thing."""
        try:
            return self.ask(what, function, *arguments)
        except DeviceUnsupportedError:
            return None


def start() -> None:
    """Initialise the library; it counts its users, so every start needs a :func:`stop`.

    Raises:
        DeviceError: If there is no library or no driver.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"NVML cannot be used here: {error}. It needs an NVIDIA driver whose "
            "libnvidia-ml.so.1 the dynamic linker finds."
        ) from error


def stop() -> None:
    """Let go of the library."""
    call("Shutting NVML down", pynvml.nvmlShutdown)


def find_uuids() -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that the library sees, in its order; those lost are left out."""
    count = call("Counting GPUs", pynvml.nvmlDeviceGetCount)
    return tuple(uuid for uuid in map(_uuid_at, range(count)) if uuid is not None)


def find(uuid: str) -> Handle:
    """Find a GPU by its UUID.

    Raises:
        DeviceNotFoundError: If there is none; names those that there are.
    """
    try:
        return Handle(uuid, call(f"Finding {uuid}", pynvml.nvmlDeviceGetHandleByUUID, uuid))
    except DeviceNotFoundError as error:
        there = ", ".join(find_uuids()) or "none"
        raise DeviceNotFoundError(
            f"uuid must be of a GPU that NVML sees, got {uuid!r}; there are: {there}."
        ) from error


def _uuid_at(index: int) -> str | None:
    try:
        native = call(f"Finding GPU {index}", pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid: str = call(f"Reading the UUID of GPU {index}", pynvml.nvmlDeviceGetUUID, native)
    except DeviceLostError as error:
        _log.warning("GPU %d is left out: %s", index, error)
        return None
    return uuid
