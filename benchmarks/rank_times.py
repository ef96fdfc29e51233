#!/usr/bin/env python
"""Where the time of a tensor-parallel Llama goes on each GPU: work, communication, waiting, gaps.

Each rank profiles one execution of every phase; no setter of a GPU is called. On two GPUs::

    torchrun --nproc-per-node 2 benchmarks/rank_times.py --model llama-2-7b --batch 8
"""

import os
import sys
import time
from dataclasses import asdict, dataclass

import torch
import tyro
from torch import distributed
from torch.profiler import ProfilerActivity, profile

from joulelab.attribution.collectives import rank_times
from joulelab.core.process import synchronise
from joulelab.errors import ConfigError
from joulelab.workloads.llama import Llama, LlamaSettings

WARM_UPS = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is profiled."""

    model: str = "llama-2-7b"
    batch: int = 1
    prompt_tokens: int = 512
    new_tokens: int = 16  # profiles of long decodes are large


def executed_s(workload: Llama, phase: str) -> float:
    """Run ``phase`` once and return how long it took."""
    distributed.barrier()
    synchronise()
    start_s = time.perf_counter()
    workload.run(phase)
    return time.perf_counter() - start_s


def profiled(workload: Llama, phase: str) -> tuple[float, list[tuple[str, float, float]]]:
    """Profile ``phase`` once; return how long it took, and its kernels in seconds."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        took_s = executed_s(workload, phase)
    kernels = [
        (each.name, each.time_range.start * 1e-6, each.time_range.elapsed_us() * 1e-6)
        for each in seen.events()
        if each.device_type == torch.autograd.DeviceType.CUDA
        and not each.name.startswith("nccl:")  # a range around a kernel
    ]
    return took_s, kernels


def main(settings: Settings) -> int:
    """Profile every phase, and print a row for each rank."""
    if not torch.cuda.is_available():
        raise ConfigError("Kernels are profiled on GPUs, but PyTorch sees none here.")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    num_ranks = distributed.get_world_size()
    workload = Llama(LlamaSettings(**asdict(settings), tensor_parallel=num_ranks))
    workload.prepare()
    for phase in workload.phases:
        bare_s = min(executed_s(workload, phase) for _ in range(WARM_UPS))
        took_s, kernels = profiled(workload, phase)
        of_ranks: list[list[tuple[str, float, float]]] = [[] for _ in range(num_ranks)]
        distributed.all_gather_object(of_ranks, kernels)
        if distributed.get_rank() == 0:
            print(f"{phase}: {bare_s:.4f} s, profiled {took_s:.4f} s")
            for rank, times in enumerate(rank_times(of_ranks)):
                print(f"  rank {rank}: {asdict(times)}")
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
