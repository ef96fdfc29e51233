"""How long it takes to read and reduce a trace of a million kernels, and in how much memory.

Usage: python benchmarks/trace_reading.py [--kernels 1000000]

The trace is made up: every kernel has an operator, a nested operator, a mark and a launch on the
host, as the profiler records them. Goals: 60 s and 2 GiB.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from joulelab.analysis.attributed.kernels import KernelProfile
from joulelab.attribution.kineto import read_trace

_DISTINCT = 180


def write_trace(path: Path, num_kernels: int) -> None:
    """Write a trace as the profiler formats it."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for index in range(num_kernels):
            ts, name = 20.0 * index, f"kernel_{index % _DISTINCT}"
            host = {"ph": "X", "pid": 1, "tid": 1}
            gpu = {"device": 0, "stream": 7, "correlation": index, "grid": [64, 1, 1]}
            for event in (
                {**host, "cat": "user_annotation", "name": f"call-{index}", "ts": ts, "dur": 18},
                {**host, "cat": "cpu_op", "name": "aten::linear", "ts": ts + 1, "dur": 16},
                {**host, "cat": "cpu_op", "name": "aten::addmm", "ts": ts + 2, "dur": 14},
                {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 5,
                 "dur": 5, "args": {"correlation": index}},
                {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts + 12,
                 "dur": 10, "args": {**gpu, "block": [128, 1, 1], "shared memory": 0}},
            ):  # fmt: skip
                file.write(json.dumps(event, indent=2))
                file.write(",\n")
        file.write('{"ph": "M", "name": "end"}]}\n')


def main() -> None:
    """Write a trace, read it, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kernels", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write_trace(path, asked.kernels)
        size_b = path.stat().st_size
        start_s = time.perf_counter()
        profile = KernelProfile.of(read_trace(path))
        took_s = time.perf_counter() - start_s
    peak_b = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{len(profile.launches)} launches of {len(profile.kernels)} kernels, "
        f"{size_b / 1e9:.2f} GB: {took_s:.1f} s, {peak_b / 2**30:.2f} GiB at most"
    )


if __name__ == "__main__":
    main()
