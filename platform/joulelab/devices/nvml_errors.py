"""NVML's error codes, which ``nvidia-smi`` also exits with, as the package's errors."""

from collections.abc import Callable
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
    """Build the error for an NVML return code.

    Args:
        code: The code, other than success.
        what: What was being done, e.g. ``"Reading the energy counter of GPU-..."``.
        driver_message: The driver's own words.
    """
    message = f"{what} failed: NVML says {driver_message!r} (code {code})."
    error = _ERRORS.get(code, DeviceError)
    if error is DevicePermissionError:
        message = f"{message} {HOW_TO_GET_PERMISSION}"
    return error(message)


def call(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call an NVML function and raise the package's error if it fails.

    Args:
        what: What is being done, for the message.
        function: The function of :mod:`pynvml`.
        arguments: Its arguments.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise error_for(error.value, what, str(error)) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise DeviceUnsupportedError(f"{what} failed: the driver is too old: {error}") from error
