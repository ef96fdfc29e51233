"""What products of matrices take on a GPU back to back, with pauses, and beside lighter kernels.

Usage: python benchmarks/paced_products.py OUT.csv          (needs a GPU; calls no setter)

Products of BERT-large at batch 32 are launched from CUDA graphs in five patterns:

* ``alone``: back to back, where the power limit lowers the clock;
* ``bursts``: some 4 ms of launches, then a rest that the host waits for;
* ``short bursts``: the same of a sixth of that;
* ``sleeps``: a thread of one SM counts clocks after every launch (``torch.cuda._sleep``);
* ``beside``: layer norms follow every launch, as in a network.

Of each: mean power by the ticks of the energy counter over 1.1 s, mean SM clock, and seconds a
launch, pauses and neighbours included. Rows of a rest, of other kernels and of waiting tell what
the board draws meanwhile.
"""

import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pynvml
import torch

Step = Callable[[], object]
_SHAPES = {"up": (12288, 4096, 1024), "down": (12288, 1024, 4096), "proj": (12288, 1024, 1024)}
"""Rows, columns and length of the sums of each product."""
_SETTLE_S, _WINDOW_S = 0.5, 1.1
_FLOP_PER_S = 650e12
_CLOCK_HZ = 1.75e9
_RATIOS = (0.15, 0.3, 0.6, 1.2)
"""Pauses over the time of a launch."""


def poll(path: str) -> None:
    """Write the energy counter, the SM clock and the temperature over and over, until killed."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    with Path(path).open("w") as file:
        while True:
            energy_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
            at_s = time.perf_counter()
            clock_mhz = pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)
            celsius = pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)
            print(at_s, energy_mj / 1e3, clock_mhz, celsius, file=file, flush=True)
            time.sleep(0.004)


def rest(seconds: float) -> None:
    """Wait for so long, and no longer."""
    until_s = time.perf_counter() + seconds
    time.sleep(max(0.0, seconds - 0.001))
    while time.perf_counter() < until_s:
        pass


def run(steps: list[Step], pause_s: float = 0.0, seconds: float = _WINDOW_S) -> list[float]:
    """Run steps from a graph; return when that began and ended after settling, and how often."""
    if steps:
        for step in steps:
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            for step in steps:
                step()
    times, start_s = 0, time.perf_counter()
    settled_s = start_s + _SETTLE_S
    while (now_s := time.perf_counter()) < settled_s + seconds:
        if start_s < settled_s <= now_s:
            times, start_s = 0, now_s
        for _ in range(1 if pause_s or not steps else 8):
            if steps:
                graph.replay()
            times += 1
        torch.cuda.synchronize()
        rest(pause_s if steps else 0.03)
    return [start_s, time.perf_counter(), times]


def patterns() -> Iterator[tuple[str, list[Step], int, float]]:
    """Yield names, steps of a graph, launches of the product in it, and seconds of a rest."""

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=torch.float16)

    def asleep(clocks: int) -> Step:
        return lambda: torch.cuda._sleep(clocks)  # noqa: SLF001  (no public call waits in a graph)

    rows, wide, tiny = tensor(12288, 1024), tensor(12288, 4096), torch.zeros(32, device="cuda")
    norm = torch.nn.LayerNorm(1024, device="cuda", dtype=torch.float16)
    yield "rest", [], 1, 0.0
    yield "layer norm", [lambda: norm(rows)] * 200, 200, 0.0
    yield "gelu", [lambda: torch.nn.functional.gelu(wide)] * 80, 80, 0.0
    yield "tiny kernel, 2 ms pauses", [lambda: tiny.add_(1)], 1, 0.002
    yield "tiny kernel", [lambda: tiny.add_(1)] * 400, 400, 0.0
    yield "sleep", [asleep(200_000)] * 40, 40, 0.0
    for name, (m, n, k) in _SHAPES.items():
        x, bias = tensor(m, k), tensor(n)
        weights = [tensor(k, n) * k**-0.5 for _ in range(4)]
        each_s = 2 * m * n * k / _FLOP_PER_S
        num = max(1, int(0.004 / each_s))
        few = max(1, num // 6)
        products: list[Step] = [
            lambda i=i, x=x, w=weights, b=bias: torch.addmm(b, x, w[i % 4]) for i in range(num)
        ]
        yield f"{name} alone", products, num, 0.0
        for ratio in _RATIOS:
            yield f"{name} bursts {ratio}", products, num, num * each_s * ratio
        yield f"{name} short bursts 0.5", products[:few], few, few * each_s * 0.5
        for ratio in _RATIOS:
            pause = asleep(int(each_s * ratio * _CLOCK_HZ))
            yield f"{name} sleeps {ratio}", [s for p in products for s in (p, pause)], num, 0.0
        for ratio in (0.25, 0.5, 1.0, 2.0):
            norms: list[Step] = [lambda: norm(rows)] * max(1, round(each_s * ratio / 30e-6))
            beside = [step for product in products for step in (product, *norms)]
            yield f"{name} beside {len(norms)} norms", beside, num, 0.0
        yield f"{name} alone again", products, num, 0.0


def main(out: Path) -> None:
    """Measure every pattern and write a row of each."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "poll.txt")
        poller = subprocess.Popen([sys.executable, __file__, "--poll", str(path)])
        time.sleep(2.0)
        heat = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
        run([lambda: heat @ heat] * 4, seconds=6.0)
        spans = [(name, num, *run(steps, rest_s)) for name, steps, num, rest_s in patterns()]
        poller.kill()
        lines = [line.split() for line in path.read_text().splitlines()]
    polled = np.array([line for line in lines if len(line) == 4], dtype=float)
    with out.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("pattern", "power_w", "sm_clock_mhz", "temperature_c", "launch_s"))
        for name, num, start_s, stop_s, times in spans:
            at_s, energy_j, clock_mhz, celsius = polled[
                (polled[:, 0] > start_s) & (polled[:, 0] < stop_s)
            ].T
            ticks = np.flatnonzero(np.diff(energy_j) > 0) + 1
            power_w = np.polyfit(at_s[ticks] - start_s, energy_j[ticks], 1)[0]
            launch_s = (stop_s - start_s) / (times * num)
            rows.writerow((name, power_w, clock_mhz.mean(), celsius.mean(), launch_s))


if __name__ == "__main__":
    if sys.argv[1] == "--poll":
        poll(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
