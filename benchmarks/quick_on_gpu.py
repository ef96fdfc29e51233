"""How far quick points are from the reference on one GPU, program by program, at its own clocks.

Usage: python benchmarks/quick_on_gpu.py OUT.jsonl                       (a simulated H100)
       python benchmarks/quick_on_gpu.py OUT.jsonl --device nvml --part 0  (observes only)
       python benchmarks/quick_on_gpu.py part0.jsonl part1.jsonl --read    (the report again)

Configurations come in random order. Each is measured by the whole reference procedure from rest
and then several times quickly; every other one once more by the reference, which shows how far the
reference is from itself. Preparing a program is not counted as time of the GPU. On a host that
jitters a reference warms up and measures for a minute a phase, and a budget ends no configuration
that has begun. Goal: 1 % root mean square where the host does not jitter, in a tenth of the time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tyro

from joulelab.bench import Bench
from joulelab.core.codec import from_json, to_json
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.plan import plan_sweep
from joulelab.core.procedure import Pace, Procedure
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.devices.choice import find_visible
from joulelab.devices.simulated import fleet
from joulelab.errors import JouleLabError
from joulelab.guard import ObserveOnly
from joulelab.workloads import WORKLOADS

_LLAMA_8B = {"model": "llama-3-8b", "new_tokens": 32}
_LLAMA_1B = {"model": "tinyllama", "new_tokens": 32}
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"precision": "bf16"}),
    ("gemm", {"precision": "fp32", "n": 4096}),
    ("stream", {}),
    *(("llama", {**_LLAMA_8B, "batch": b, "prompt_tokens": n}) for b, n in ((1, 512), (8, 128))),
    *(("llama", {**_LLAMA_8B, "batch": b, "prompt_tokens": n}) for b, n in ((8, 1024), (32, 256))),
    *(
        ("llama", {**_LLAMA_1B, "batch": b, "precision": p})
        for b in (1, 16)
        for p in ("fp16", "fp32")
    ),
    *(("vit", {"batch": b, "precision": p}) for b in (1, 32, 128) for p in ("fp16", "fp32")),
    *(("resnet50", {"batch": b, "precision": p}) for b in (1, 64) for p in ("bf16", "fp32")),
    *(("bert", {"batch": b}) for b in (1, 32)),
    *(("diffusion", {"steps": 10, "batch": b}) for b in (1, 4)),
    *(("lstm", {"batch": b, "sequence_tokens": n}) for b, n in ((1, 256), (64, 256), (256, 64))),
    *(("detection", {"batch": b}) for b in (1, 8)),
)
JITTER = 0.01
"""Scatter of the reference's window times, relative, above which the host is said to jitter."""
GOAL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure.

    Attributes:
        files: One file to append to; with ``read``, those to report on.
        device: A backend, or the simulated H100.
        only: Take the programs whose name has this in it.
        part: Which part of the configurations, from 0; ``None`` for all.
        parts: Into how many they are divided.
        quick: Quick points of each configuration.
        budget_s: Start no configuration after so many seconds of the device.
        seed: Of the order.
        read: Report on files and measure nothing.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    device: str = "simulated"
    only: str = ""
    part: int | None = None
    parts: int = 2
    quick: int = 3
    budget_s: float = 400.0
    seed: int = 0
    read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a valid measurement found, per unit of work; ``time_cv`` is the scatter of windows."""

    energy_j: float
    energy_u_j: float
    time_s: float
    time_cv: float
    temperature_c: float | None
    power_cap_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One phase of one measurement; an invalid one has its reason instead of numbers."""

    case: str
    phase: str
    asked: Pace
    pace: Pace
    took_s: float
    reason: str
    numbers: Numbers | None


def main() -> None:
    """Measure, and print how far the paces are from each other."""
    settings = tyro.cli(Settings, description=__doc__)
    if not settings.read:
        measure_all(settings)
    rows = [
        from_json(Row, line) for path in settings.files for line in path.read_text().splitlines()
    ]
    print(*report(rows), sep="\n")


def measure_all(settings: Settings) -> None:
    """Measure on one device, and append each row as soon as it is there."""
    (out,) = settings.files
    with TemporaryDirectory() as store, out.open("a") as file:
        simulated = settings.device == "simulated"
        address = (fleet("h100_sxm", 1, store) if simulated else find_visible(settings.device))[0]
        device = DEVICES[address.backend].open(address)
        print(f"{device.identity().name} {device.identity().uuid}", flush=True)
        end_s = device.clock.now_s() + settings.budget_s
        for index, (name, knobs) in enumerate(chosen(settings)):
            if device.clock.now_s() > end_s:
                print(f"{label_of(name, knobs)}: no time was left for it", flush=True)
                continue
            paces: list[Pace] = ["reference", *["quick"] * settings.quick]
            paces += ["reference"] * (index % 2)
            with Bench(device, control=ObserveOnly(device, address)) as bench:
                for row in measured(device, bench, name, knobs, paces):
                    file.write(to_json(row) + "\n")
                    file.flush()
        device.close()


def chosen(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Return the configurations in their random order."""
    found = [case for case in CASES if settings.only in case[0]]
    Random(settings.seed).shuffle(found)  # noqa: S311 - an order, not a secret
    return found if settings.part is None else found[settings.part :: settings.parts]


def label_of(name: str, knobs: dict[str, Any]) -> str:
    """Return the name of a configuration in rows."""
    return " ".join((name, *(f"{key}={value}" for key, value in knobs.items())))


def measured(
    device: Device, bench: Bench, name: str, knobs: dict[str, Any], paces: Sequence[Pace]
) -> Iterator[Row]:
    """Measure one configuration at one pace after the other, and yield a row per phase."""
    configuration = Configuration.of(name, WORKLOADS[name].from_knobs(knobs).settings)
    trials = plan_sweep("paces", [configuration], repeats=len(paces))
    case = label_of(name, knobs)
    try:
        bench.prepared(configuration)
    except JouleLabError as error:
        print(f"{case}: {error}", flush=True)
        return
    for trial, pace in zip(trials, paces, strict=True):
        start_s = device.clock.now_s()
        records = bench.measure(trial, procedure=Procedure(pace=pace))
        took_s = device.clock.now_s() - start_s
        for record in records:
            yield row_of(case, pace, took_s, record.measurement)


def row_of(case: str, asked: Pace, took_s: float, found: Measurement) -> Row:
    """Return the row of a measurement."""
    return Row(
        case=case,
        phase=found.phase,
        asked=asked,
        pace=found.pace,
        took_s=took_s,
        reason="; ".join(f"{each.reason}: {each.detail}" for each in found.findings),
        numbers=numbers_of(found) if found.valid else None,
    )


def numbers_of(found: Measurement) -> Numbers:
    """Return what a valid measurement found."""
    each_s = [window.duration_s / window.work for window in found.windows]
    return Numbers(
        energy_j=found.energy_per_unit_j,
        energy_u_j=found.energy_per_unit_u_j,
        time_s=found.time_per_unit_s,
        time_cv=pstdev(each_s) / found.time_per_unit_s,
        temperature_c=found.observed.temperature_stop_c,
        power_cap_share=found.observed.power_cap_share,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One phase of one configuration: quick points beside the first reference.

    Attributes:
        off: Relative difference in energy per unit of each quick point.
        u: Standard uncertainty of each, of both measurements together.
        itself: The same difference of the second reference; ``None`` where there is none.
        again: Quick points that were measured again from rest.
    """

    name: str
    energy_j: float
    energy_u_j: float
    off: np.ndarray
    u: np.ndarray
    itself: float | None
    time_off: float
    temperatures_c: tuple[float | None, float | None]
    jitter: float
    cap_share: float | None
    took_s: tuple[float, float]
    again: int

    def __str__(self) -> str:
        own = "" if self.itself is None else f", reference again {self.itself:+.2%}"
        return (
            f"{self.name}: {self.energy_j:.5g} J +- {self.energy_u_j / self.energy_j:.2%}, quick "
            f"{self.off.mean():+.2%} +- {1.96 * fmean(self.u):.2%} (95 %; "
            f"{', '.join(f'{each:+.2%}' for each in self.off)}){own}, time {self.time_off:+.2%}, "
            f"{self.temperatures_c} C, jitter {self.jitter:.2%}, cap share {self.cap_share}, "
            f"{self.took_s[0]:.1f} -> {self.took_s[1]:.1f} s, {self.again} again from rest"
        )


def report(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a line per phase, the worse ones again, and what the goals are about."""
    kept: dict[str, list[Row]] = {}
    for row in rows:
        kept.setdefault(f"{row.case} {row.phase}", []).append(row)
    compared = []
    for name, of_phase in kept.items():
        found = compared_of(name, of_phase)
        yield str(found or f"{name}: not compared: {[row.reason for row in of_phase]}")
        compared += [found] if found else []
    for kind, cases in (
        ("steady host", [each for each in compared if each.jitter <= JITTER]),
        ("jittering host", [each for each in compared if each.jitter > JITTER]),
    ):
        if cases:
            yield f"{kind}: {summary(cases)}"


def compared_of(name: str, rows: Sequence[Row]) -> Compared | None:
    """Compare the valid rows of a phase; ``None`` without a reference and a quick point."""
    whole = [(row, row.numbers) for row in rows if row.asked == "reference" and row.numbers]
    quick = [(row, row.numbers) for row in rows if row.asked == "quick" and row.numbers]
    if not (whole and quick):
        return None
    first_row, first = whole[0]
    scale_j = first.energy_j
    return Compared(
        name=name,
        energy_j=scale_j,
        energy_u_j=first.energy_u_j,
        off=np.array([each.energy_j for _, each in quick]) / scale_j - 1,
        u=np.hypot([each.energy_u_j for _, each in quick], first.energy_u_j) / scale_j,
        itself=whole[1][1].energy_j / scale_j - 1 if len(whole) > 1 else None,
        time_off=fmean(each.time_s for _, each in quick) / first.time_s - 1,
        temperatures_c=(first.temperature_c, quick[-1][1].temperature_c),
        jitter=max(each.time_cv for _, each in whole),
        cap_share=first.power_cap_share,
        took_s=(first_row.took_s, fmean(row.took_s for row, _ in quick)),
        again=sum(row.pace == "reference" for row, _ in quick),
    )


def summary(cases: Sequence[Compared]) -> str:
    """Return in words how far quick points are from the reference, and how much they save."""
    off, u = (np.concatenate([getattr(each, name) for each in cases]) for name in ("off", "u"))
    ratios = [each.took_s[0] / each.took_s[1] for each in cases]
    own = [each.itself for each in cases if each.itself is not None]
    worse = [each.name for each in cases if abs(each.off.mean()) > GOAL]
    itself = f" (reference from itself {np.sqrt(np.mean(np.square(own))):.2%})" if own else ""
    return (
        f"{len(cases)} phases, rms {np.sqrt(np.mean(off**2)):.2%}{itself}, 95 % intervals hold the "
        f"reference in {np.mean(np.abs(off) <= 1.96 * u):.1%} of {len(off)}, time a tenth or less "
        f"in {sum(each >= 10 for each in ratios)}, {median(ratios):.1f}x in the median; further "
        f"than {GOAL:.0%}: {', '.join(worse) or 'none'}"
    )


if __name__ == "__main__":
    main()
