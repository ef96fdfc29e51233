"""Programs whose energy is measured."""

from typing import Any

from joulelab.registry import Registry
from joulelab.workloads.base import Workload

WORKLOADS: Registry[type[Workload[Any]]] = Registry(
    "workload",
    {
        "diffusion": "joulelab.workloads.diffusion:Diffusion",
        "gemm": "joulelab.workloads.gemm:Gemm",
        "idle": "joulelab.workloads.idle:Idle",
        "llama": "joulelab.workloads.llama:Llama",
        "recorded": "joulelab.workloads.recorded:Recorded",
        "stream": "joulelab.workloads.stream:Stream",
        "whisper": "joulelab.workloads.whisper:Whisper",
    },
)
