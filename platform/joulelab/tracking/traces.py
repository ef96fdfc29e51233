"""Power and the course of a device as Parquet: typed columns that pandas, DuckDB and Spark read.

One row per instant at which something was read, empty where that was not: power comes every 20 ms,
clocks, temperatures and utilisation every 200 ms, activities once a second.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.core.trace import COURSES, Course, PowerTrace
from joulelab.errors import TrackingError

Array = NDArray[np.float64]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One quantity over increasing seconds of the device's clock, in the unit of its name."""

    t_s: Array
    values: Array


@cache
def can_write_traces() -> bool:
    """Whether traces can be written; where they cannot, the log says so once.

    They are for plots, and results are whole without: 150 MB are not asked of who measures alone.
    """
    if find_spec("pyarrow") is not None:
        return True
    _log.warning(
        "Power traces are not kept, for which pyarrow is missing; it comes with "
        "pip install 'joulelab[plots]'."
    )
    return False


def trace_bytes(trace: PowerTrace, measurement_id: str, course: Course | None = None) -> bytes:
    """Write ``trace`` and ``course`` as a Parquet file in memory, compressed with zstd."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    readings: dict[str, dict[float, float]] = {name: {} for name in COURSES}
    for name, at_s, value in (course or Course()).readings():
        readings[name][at_s] = value
    t_s = np.union1d(trace.t_s, [at_s for read in readings.values() for at_s in read])
    columns = {"t_s": _column(t_s, t_s, t_s), "power_w": _column(t_s, trace.t_s, trace.power_w)}
    for name, read in readings.items():
        columns[name] = _column(t_s, np.array([*read]), np.array([*read.values()]))
    table = pa.Table.from_arrays(
        [*columns.values()],
        names=[*columns],
        metadata={"joulelab.measurement_id": measurement_id},
    )
    sink = pa.BufferOutputStream()
    # Sampled floats hardly repeat: a dictionary would only make the file longer.
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_trace(path: Path) -> PowerTrace:
    """Read the power of a trace that :func:`trace_bytes` wrote.

    Raises TrackingError if the file is absent or is no trace.
    """
    found = read_series(path, ["power_w"])
    if "power_w" not in found:
        raise TrackingError(f"{path} is no power trace: its power_w is empty.")
    return PowerTrace(t_s=found["power_w"].t_s, power_w=found["power_w"].values)


def read_series(path: Path, names: list[str] | None = None) -> Mapping[str, Series]:
    """Read what a trace holds over time, by name; what was never read is left out.

    By default all of it; the file may be one that an earlier version wrote. Raises TrackingError if
    the file is absent, is no trace, or lacks one of ``names``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise TrackingError(
            f"{path} does not exist: the measurement has no power samples, or pyarrow was missing "
            "where it was measured."
        )
    try:
        table = pq.read_table(path, columns=None if names is None else ["t_s", *names])
        names_there = table.column_names
        read = {n: np.asarray(table[n].to_numpy(), dtype=np.float64) for n in names_there}
        t_s = read.pop("t_s")
        missing = set(names or ()) - set(read)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise TrackingError(f"{path} is no power trace: {error}") from error
    if missing:
        raise TrackingError(f"{path} is no power trace: it has no {', '.join(sorted(missing))}.")
    known = {name: ~np.isnan(values) for name, values in read.items()}
    return {
        name: Series(t_s[known[name]], values[known[name]])
        for name, values in read.items()
        if known[name].any()
    }


def _column(t_s: Array, at_s: Array, values: Array) -> Any:
    """Return the values at their instants as a column over ``t_s``, empty elsewhere.

    From buffers, because pyarrow imports pandas, a second's work, to look at a numpy array.
    """
    import pyarrow as pa

    places = np.searchsorted(t_s, at_s)
    filled, known = np.zeros(t_s.size), np.zeros(t_s.size, dtype=bool)
    filled[places], known[places] = values, True
    valid = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.float64(), t_s.size, [valid, pa.py_buffer(filled.tobytes())])
