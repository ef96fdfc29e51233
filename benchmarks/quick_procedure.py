"""What the quick pace costs and how true it is, beside the reference, on simulated GPUs.

Usage: python benchmarks/quick_procedure.py [--every 4] [--only gemm] [--board 1] [--unseen]

Both paces measure the same sweeps: clocks in random order, three blocks, boards that warm up and
leak by temperature. Goals: 2 s a point of a steady load, root mean square of the difference in
energy 0.7 %, regret of the clock with least EDP 0.3 % in the mean and 1 % at worst. The pace was
made with the programs of PROGRAMS on boards 0; --unseen are others. On a real GPU: quick_on_gpu.py.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any

import numpy as np

from joulelab.bench import Bench
from joulelab.core.additive import fit_additive
from joulelab.core.configuration import Configuration
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.plan import plan_sweep, sweep_points
from joulelab.core.procedure import Pace, Procedure
from joulelab.devices.choice import open_device
from joulelab.devices.simulated import fleet
from joulelab.workloads import WORKLOADS

PROGRAMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"precision": "bf16"}),
    ("gemm", {"precision": "fp32", "n": 4096}),
    ("stream", {}),
    ("vit", {"batch": 1}),
    ("vit", {"batch": 64}),
    ("bert", {"batch": 32}),
    ("resnet50", {"batch": 32}),
    ("lstm", {}),
    ("llama", {"model": "tinyllama", "batch": 8, "new_tokens": 16}),
    ("llama", {"model": "llama-2-7b", "batch": 1, "new_tokens": 16}),
)
UNSEEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"precision": "tf32"}),
    ("gemm", {"precision": "fp64", "n": 2048}),
    ("gemm", {"precision": "fp16", "n": 2048}),
    ("stream", {"kernel": "triad", "precision": "fp16"}),
    ("resnet50", {"batch": 1, "precision": "fp32"}),
    ("bert", {"batch": 4, "precision": "fp16"}),
    ("llama", {"model": "tinyllama", "batch": 1, "new_tokens": 8}),
)
PRODUCTS = ("h200_sxm", "a100_sxm")
Board = tuple[str, int]
"""A kind of GPU, and the number of a board of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One phase of one program.

    Attributes:
        name: Which.
        minutes: Time of the device for 110 clocks in three blocks, by pace.
        differences: Relative difference in energy per unit of each clock.
        regret: Of the quick pace's choice, by the reference's EDP, among clocks that were valid in
            every block of the reference: one that was not, as it is held down once the board is
            hot, has a mean of its cool blocks alone.
        held: Whether the 95 % interval of each quick point holds what the reference says in the
            mean of its blocks, with the uncertainty of that.
    """

    name: str
    minutes: tuple[float, float]
    differences: np.ndarray
    regret: float
    held: tuple[bool, ...]


def main() -> None:
    """Print one row per phase, and what the goals are about."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=4, help="take every so many-th clock")
    parser.add_argument("--only", help="programs whose name has this in it")
    parser.add_argument("--board", type=int, default=0, help="which board of each kind")
    parser.add_argument("--unseen", action="store_true", help="take programs not looked at before")
    asked = parser.parse_args()
    programs = UNSEEN if asked.unseen else PROGRAMS
    programs = tuple(one for one in programs if asked.only is None or asked.only in one[0])
    if not programs:
        parser.error(f"--only must be in one of {sorted({one[0] for one in PROGRAMS + UNSEEN})}.")
    cases = [
        case
        for product in PRODUCTS
        for name, knobs in programs
        for case in cases_of((product, asked.board), name, knobs, asked.every)
    ]
    rms = np.sqrt(np.mean(np.concatenate([case.differences for case in cases]) ** 2))
    regrets = [case.regret for case in cases]
    held = [each for case in cases for each in case.held]
    print(
        f"{len(cases)} phases: rms {rms:.2%}, regret {fmean(regrets):.2%} in the mean, "
        f"{max(regrets):.2%} at worst; 95 % intervals hold the reference in {fmean(held):.1%} of "
        f"{len(held)}"
    )


def cases_of(board: Board, name: str, knobs: dict[str, Any], every: int) -> Iterator[Case]:
    """Measure a program at both paces, and yield its phases."""
    label = " ".join((board[0], name, *map(str, knobs.values())))
    whole, quick = (swept(board, name, knobs, every, pace) for pace in ("reference", "quick"))
    for phase in whole.phases:
        reference, found = whole.per_clock(phase), quick.per_clock(phase)
        clocks = sorted(reference.keys() & found.keys())
        most = max(map(len, whole.of(phase).values()))
        lasting = [mhz for mhz in clocks if len(whole.of(phase)[mhz]) == most]
        edp = {mhz: reference[mhz][0] * reference[mhz][1] for mhz in lasting}
        chosen = min(lasting, key=lambda mhz: found[mhz][0] * found[mhz][1])
        case = Case(
            name=f"{label} {phase}",
            minutes=(whole.minutes, quick.minutes),
            differences=np.array([found[mhz][0] / reference[mhz][0] - 1 for mhz in clocks]),
            regret=edp[chosen] / min(edp.values()) - 1,
            held=tuple(
                abs(one.energy_per_unit_j - reference[mhz][0])
                <= 1.96 * np.hypot(one.energy_per_unit_u_j, reference[mhz][2])
                for mhz, ones in quick.of(phase).items()
                if mhz in reference
                for one in ones
            ),
        )
        print(
            f"{case.name:46s} {case.minutes[0]:6.1f} -> {case.minutes[1]:5.1f} min "
            f"{case.minutes[0] / case.minutes[1]:5.1f}x  rms "
            f"{np.sqrt(np.mean(case.differences**2)):.2%} bias {case.differences.mean():+.2%} "
            f"regret {case.regret:.2%} held {fmean(case.held):.0%} again {quick.again:.0%}",
            flush=True,
        )
        yield case


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A sweep at one pace.

    Attributes:
        found: Valid measurements.
        minutes: Time of the device that 110 clocks in three blocks would take at that pace.
        again: Share of points that were measured again from rest.
    """

    found: tuple[Measurement, ...]
    minutes: float
    again: float

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases in order."""
        return tuple(dict.fromkeys(each.phase for each in self.found))

    def of(self, phase: str) -> dict[int, list[Measurement]]:
        """Return the measurements of each clock, 0 for the driver's own."""
        found = (each for each in self.found if each.phase == phase)
        return grouped_by(found, lambda each: each.configuration.point.sm_clock_mhz or 0)

    def per_clock(self, phase: str) -> dict[int, tuple[float, float, float]]:
        """Return mean energy and time per unit of each clock, and the energy's uncertainty.

        That is what a sweep states: by how its repeats scatter, and what readings say at least.
        """
        clocks = self.of(phase)
        rows = [(str(mhz), one) for mhz, ones in clocks.items() for one in ones]
        fit = fit_additive(
            [mhz for mhz, _ in rows],
            [one.device.uuid for _, one in rows],
            [log(one.energy_per_unit_j) for _, one in rows],
            [one.energy_per_unit_u_j / one.energy_per_unit_j for _, one in rows],
        )
        return {
            mhz: (
                energy_j := fmean(one.energy_per_unit_j for one in ones),
                fmean(one.time_per_unit_s for one in ones),
                energy_j * fit.relative_u(str(mhz)),
            )
            for mhz, ones in clocks.items()
        }


def swept(board: Board, name: str, knobs: dict[str, Any], every: int, pace: Pace) -> Swept:
    """Sweep the clocks of a fresh board at a pace."""
    settings = WORKLOADS[name].from_knobs(knobs).settings
    with tempfile.TemporaryDirectory() as store:
        product, number = board
        address = fleet(product, number + 1, store)[number]
        device = open_device(address)
        clocks_mhz = device.capabilities().sm_clocks_mhz
        points = sweep_points(clocks_mhz, mode="dvfs", every=every)
        configurations = [Configuration.of(name, settings, point) for point in points]
        trials = plan_sweep("paces", configurations, repeats=3)
        ends_s, found = [device.clock.now_s()], []
        with Bench(device, procedure=Procedure(pace=pace)) as bench:
            for trial in trials:
                found += [record.measurement for record in bench.measure(trial)]
                ends_s.append(device.clock.now_s())
        device.close()
    first_s, *others_s = np.diff(ends_s)
    return Swept(
        found=tuple(each for each in found if each.valid),
        minutes=(first_s + 329 * fmean(others_s)) / 60,
        again=sum(each.pace == "reference" for each in found[1:]) / len(found),
    )


if __name__ == "__main__":
    main()
