"""Runs that obey a known law, for tests of power models."""

import csv

import numpy as np

from joulelab.hardware import GPUS
from joulelab.power_models.readers import runs_of_rows

CLOCKS_MHZ = (510, 705, 900, 1095, 1290, 1410)


def law(*, fp, dram, sm, ratio, ridge=0.7, beta=1.0):
    """Return power in W and time over that at the top clock: the law of the synthetic runs.

    Memory draws as it is read, the less of it in a second the longer the work takes.
    """
    voltage = 1.0 + beta * np.maximum(0.0, ratio - ridge)
    core = 1.0 - 0.8 * dram
    time = core / ratio + (1.0 - core)
    power_w = 60.0 + (15.0 + 60.0 * sm + 90.0 * fp) * ratio * voltage**2 + 70.0 * dram / time
    return power_w, time


def rows_by_law(num_applications=12, *, gpu="a100_sxm", clocks_mhz=CLOCKS_MHZ, seed=0, noise=0.0):
    """Return rows of applications with random activities, as a reader takes them."""
    random = np.random.default_rng(seed)
    default_mhz = GPUS[gpu].default_clock_mhz
    rows = []
    for number in range(num_applications):
        fp, dram, sm = random.uniform(0.0, 0.6), random.uniform(0.0, 0.9), random.uniform(0.4, 1.0)
        for clock_mhz in clocks_mhz:
            ratio = clock_mhz / default_mhz
            power_w, time = law(fp=fp, dram=dram, sm=sm, ratio=ratio)
            rows.append(
                {
                    "application": f"app{number:02d}",
                    "gpu": gpu,
                    "sm_clock_mhz": float(clock_mhz),
                    "power_w": power_w * float(np.exp(noise * random.standard_normal())),
                    "time_s": 10.0 * time * float(np.exp(noise * random.standard_normal())),
                    "fp_active": fp * float(np.clip(1.0 / time / ratio, 0.0, 1.0)),
                    "dram_active": dram * float(np.clip(1.0 / time, 0.0, 1.0)),
                    "tensor_active": 0.0,
                    "sm_active": sm,
                }
            )
    return rows


def runs_by_law(num_applications=12, **kinds):
    """Return the same as a table."""
    return runs_of_rows(rows_by_law(num_applications, **kinds))


def write_runs(path):
    """Write a table of them, with a little noise, for commands that read one; return ``path``."""
    rows = rows_by_law(12, noise=0.01)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path
