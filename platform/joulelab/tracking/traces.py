"""Power traces as Parquet: typed columns that pandas, DuckDB and Spark read."""

from pathlib import Path

import numpy as np

from joulelab.core.trace import PowerTrace
from joulelab.errors import TrackingError


def trace_bytes(trace: PowerTrace, measurement_id: str) -> bytes:
    """Write ``trace`` as a Parquet file in memory, compressed with zstd."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    # From buffers, because pyarrow imports pandas, a second's work, to look at a numpy array.
    columns = [
        pa.Array.from_buffers(
            pa.float64(), len(trace), [None, pa.py_buffer(np.ascontiguousarray(values, np.float64))]
        )
        for values in (trace.t_s, trace.power_w)
    ]
    table = pa.Table.from_arrays(
        columns,
        names=["t_s", "power_w"],
        metadata={"joulelab.measurement_id": measurement_id},
    )
    sink = pa.BufferOutputStream()
    # Sampled floats hardly repeat: a dictionary would only make the file longer.
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_trace(path: Path) -> PowerTrace:
    """Read a trace that :func:`trace_bytes` wrote.

    Raises:
        TrackingError: If the file is absent or is no trace.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise TrackingError(f"{path} does not exist: the measurement has no power samples.")
    try:
        table = pq.read_table(path, columns=["t_s", "power_w"])
        t_s, power_w = (table[name].to_numpy() for name in ("t_s", "power_w"))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise TrackingError(f"{path} is no power trace: {error}") from error
    return PowerTrace(
        t_s=np.asarray(t_s, dtype=np.float64), power_w=np.asarray(power_w, dtype=np.float64)
    )
