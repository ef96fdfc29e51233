"""Traces as PyTorch's profiler writes them, by hand."""

import gzip
import json


def kernel(name, ts, dur, correlation, **args):
    given = {"device": 0, "stream": 7, "correlation": correlation, "grid": [8, 1, 1],
             "block": [128, 1, 1], "shared memory": 0, **args}  # fmt: skip
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": given}


def host(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid,
            "args": args}  # fmt: skip


EVENTS = [
    {"ph": "M", "name": "process_name", "args": {"name": "python [1]"}},
    host("user_annotation", "outer", 0.0, 100.0),
    host("user_annotation", "inner", 20.0, 30.0),
    host("cpu_op", "aten::linear", 20.0, 25.0),
    host("cpu_op", "aten::addmm", 22.0, 20.0),
    host("cuda_runtime", "cudaLaunchKernel", 25.0, 5.0, correlation=1),
    host("cuda_runtime", "cudaLaunchKernel", 60.0, 5.0, correlation=2),
    host("cuda_runtime", "cudaLaunchKernel", 25.0, 5.0, tid=2, correlation=3),
    host("cuda_runtime", "cudaStreamSynchronize", 90.0, 5.0, correlation=9),
    kernel("gemm", 40.0, 10.0, 1),
    kernel("add", 70.0, 2.0, 2),
    kernel("gemm", 55.0, 12.0, 3),
]


def write_trace(path, events, *, whole=True):
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, indent=1)
    text = text if whole else text[: len(text) // 2]
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path
