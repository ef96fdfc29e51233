"""NVML's numbered fields: one call for many values, each of which may be missing.

Verified on an H200 with driver 580.159: the event counters count nanoseconds (``nvidia-smi``
shows microseconds), power and energy are in milliwatts and millijoules, memory power has an
average but no instantaneous reading, and a field that the driver does not know comes back as
"invalid argument" for that field alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

from joulelab.devices.nvml_errors import call, error_for


class Field(NamedTuple):
    """A field and the part of the board that it is asked of."""

    id: int
    scope: int = 0


POWER_INSTANT = Field(186)
POWER_AVERAGE = Field(185)
MEMORY_POWER_AVERAGE = Field(185, scope=2)
MEMORY_TEMPERATURE = Field(82)
POWER_CAP_NS = Field(74)

# Software and hardware thermal slowdown. The driver branches 570 and 580 number them
# differently; 75 is the older counter of both.
THERMAL_NS = ((Field(269), Field(270)), (Field(251), Field(252)), (Field(75),))

_VALUE_OF_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
_ABSENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NO_DATA,
}


def read_fields(handle: Any, fields: Sequence[Field]) -> list[float | None]:
    """Read several fields at once; ``None`` for those that this driver or board lacks.

    Raises:
        DeviceError: If the driver fails otherwise.
    """
    asked = [tuple(field) for field in fields]
    values = call("Reading field values", pynvml.nvmlDeviceGetFieldValues, handle, asked)
    return [_decoded(value) for value in values]


def thermal_fields(handle: Any) -> tuple[Field, ...]:
    """Find the fields that count thermal slowdown here, in nanoseconds; empty if none does.

    Other drivers use the same numbers for other things, so a counter is known by its type too.
    """
    for fields in THERMAL_NS:
        asked = [tuple(field) for field in fields]
        values = call("Reading field values", pynvml.nvmlDeviceGetFieldValues, handle, asked)
        if all(_is_counter(value) for value in values):
            return fields
    return ()


def value_of(union: Any, value_type: int) -> float:
    """Take the member of an NVML value union that ``value_type`` names."""
    return getattr(union, _VALUE_OF_TYPE[value_type])  # type: ignore[no-any-return]


def _is_counter(value: Any) -> bool:
    counts = bool(value.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
    return counts and _decoded(value) is not None


def _decoded(value: Any) -> float | None:
    if value.nvmlReturn == pynvml.NVML_SUCCESS:
        return value_of(value.value, value.valueType)
    if value.nvmlReturn in _ABSENT:
        return None
    driver_message = str(pynvml.NVMLError(value.nvmlReturn))
    raise error_for(value.nvmlReturn, f"Reading field {value.fieldId}", driver_message)
