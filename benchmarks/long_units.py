#!/usr/bin/env python
"""How long quick points take by the length of a unit of work, and how many units that are.

Usage: python benchmarks/long_units.py [--batches 64 512 1024 2048 4096]

A ViT in fp16 is measured at seven clocks, one after the other, on simulated boards. Its unit, a
batch, takes the longer the larger that is. Seconds are all that the board takes for a point.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from statistics import median

import tyro

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.workloads import WORKLOADS

CLOCKS_MHZ = (1200, 1095, 1305, 900, 1410, 1005, 1155)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured.

    Attributes:
        products: Catalogue keys of the boards.
        batches: Images of a unit.
    """

    products: tuple[str, ...] = ("h200_sxm", "a100_sxm")
    batches: tuple[int, ...] = (64, 512, 1024, 2048, 4096)


def main(settings: Settings) -> None:
    """Print a line for each board and batch."""
    for product in settings.products:
        for batch in settings.batches:
            found = list(points(product, batch))
            unit_s, point_s, windows_s = (median(column) for column in zip(*found, strict=True))
            print(
                f"{product}, unit {unit_s:.3f} s: point {point_s:.2f} s, {point_s / unit_s:.1f} "
                f"units, of which {windows_s / unit_s:.1f} in windows ({len(found)} points)",
                flush=True,
            )


def points(product: str, batch: int) -> Iterator[tuple[float, float, float]]:
    """Yield seconds of a unit, of a quick point, and of its windows, for points after the first."""
    program = WORKLOADS["vit"].from_knobs({"batch": batch, "precision": "fp16"})
    with (
        tempfile.TemporaryDirectory() as store,
        closing(SimulatedDevice.open(fleet(product, 1, store)[0])) as device,
        Bench(device, procedure=Procedure(pace="quick")) as bench,
    ):
        for number, clock_mhz in enumerate(CLOCKS_MHZ):
            point = OperatingPoint(sm_clock_mhz=clock_mhz)
            asked = Configuration.of("vit", program.settings, point)
            begin_s = device.clock.now_s()
            (record,) = bench.measure(Trial(study="units", name=str(number), configuration=asked))
            took_s, found = device.clock.now_s() - begin_s, record.measurement
            if number and found.valid:
                windows_s = sum(window.duration_s for window in found.windows)
                yield batch * found.time_per_unit_s, took_s, windows_s


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
