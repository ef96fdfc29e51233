"""What links between GPUs draw as soon as anything is summed over them, however rarely.

Usage: torchrun --nproc-per-node 2 benchmarks/link_power.py OUT.csv

Observes only. Each GPU rests, launches small kernels of its own at some intervals, then sums over
all GPUs at the same ones: what sums draw beyond the others at long intervals is neither the sums
nor their launches, but links that stay awake between them. The driver says whether they are.
"""

import csv
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import torch
from torch import distributed

INTERVALS_S = (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 1e-2, 5e-2)
SIZES_B = (8192, 4194304)
"""Of what a layer of Vicuna-7B sums for one token, and for 512."""
_NUM_LINKS = 18
_RUN_S, _SETTLE_S = 1.6, 0.3


class Meter:
    """The energy counter and the links of one GPU."""

    def __init__(self, index: int) -> None:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(index).uuid}"
        self.uuid = uuid
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def power_w(self) -> tuple[float, int]:
        """Return mean power between two ticks some :data:`_RUN_S` apart, and links asleep."""
        time.sleep(_SETTLE_S)
        start_j, start_s = self._tick()
        time.sleep(_RUN_S - 2 * _SETTLE_S)
        asleep = self._asleep()
        stop_j, stop_s = self._tick()
        return (stop_j - start_j) / (stop_s - start_s), asleep

    def _joules(self) -> float:
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3

    def _tick(self) -> tuple[float, float]:
        before_j = self._joules()
        while (now_j := self._joules()) == before_j:
            pass
        return now_j, time.perf_counter()

    def _asleep(self) -> int:
        field = pynvml.NVML_FI_DEV_NVLINK_GET_POWER_STATE
        links = [(field, link) for link in range(_NUM_LINKS)]
        found = pynvml.nvmlDeviceGetFieldValues(self._handle, links)
        return sum(each.nvmlReturn == 0 and each.value.uiVal == 1 for each in found)


def paced(call: Callable[[], Any], interval_s: float) -> None:
    """Call for :data:`_RUN_S`, as often on all ranks, at even intervals."""
    distributed.barrier()
    torch.cuda.synchronize()
    next_s = time.perf_counter()
    for _ in range(int(_RUN_S / interval_s)):
        call()
        next_s += interval_s
        while time.perf_counter() < next_s:
            pass
    torch.cuda.synchronize()


def rows_of(meter: Meter) -> list[tuple[str, str, int, float, float, int]]:
    """Return GPU, what it did, bytes, interval, power and links asleep, case by case."""
    tensors = {size: torch.ones(size // 2, dtype=torch.bfloat16, device="cuda") for size in SIZES_B}
    least = tensors[min(SIZES_B)]
    cases: list[tuple[str, int, Callable[[], Any]]] = [
        ("rest", 0, lambda: None),
        ("kernel", min(SIZES_B), lambda: least.add_(0)),
        *(
            ("sum", size, lambda each=each: distributed.all_reduce(each))
            for size, each in tensors.items()
        ),
        ("rest", 0, lambda: None),
    ]
    rows = []
    with ThreadPoolExecutor(1) as pool:
        for what, size, call in cases:
            call()  # the first one sets up connections
            for interval_s in INTERVALS_S if what != "rest" else (1e-2,):
                read = pool.submit(meter.power_w)
                paced(call, interval_s)
                power_w, asleep = read.result()
                rows.append((meter.uuid, what, size, interval_s, round(power_w, 2), asleep))
    return rows


def main(path: str) -> None:
    """Measure on all ranks; the first one writes the table of all."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, rows_of(Meter(rank)))
    if rank == 0:
        with open(path, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(("gpu", "what", "bytes", "interval_s", "power_w", "links_asleep"))
            table.writerows(row for rows in found for row in rows)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
