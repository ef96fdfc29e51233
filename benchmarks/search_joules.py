#!/usr/bin/env python
"""What a search costs until its choice is within 1 % of the least EDP, quickly and from rest.

Usage: python benchmarks/search_joules.py [--seeds 2] [--only vit] [--num-trials 24]

The same search of SM clock, batch and number format runs at both paces, on boards of an H200 and of
an A100 that warm up, leak and cap their power. Joules and seconds are all that the board takes from
the first trial on: weights that are loaded, idle windows, warm-ups, windows, waits. The least EDP
is that of the board in its steady state. Loading is not simulated: a network takes ``LOAD_S`` and
as long as its bytes at ``LOAD_B_PER_S``, other inputs for one that is there ``INPUTS_S``, in which
the board idles.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import expm1, inf
from statistics import fmean, median
from typing import Any

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from search_surface import Surface, surface_of

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.procedure import Pace, Procedure
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import EDP
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies import STRATEGIES
from joulelab.study.budget import Budget
from joulelab.study.events import TrialMeasured
from joulelab.study.search_queue import Search, SearchQueue, Sentinel
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

PRODUCTS = ("h200_sxm", "a100_sxm")
_LLAMA: dict[str, KnobValue] = {"new_tokens": 16, "prompt_tokens": 128}
CASES: tuple[tuple[str, dict[str, KnobValue], dict[str, Sequence[KnobValue]]], ...] = (
    ("vit", {}, {"batch": (1, 16, 64), "precision": ("fp32", "tf32", "bf16")}),
    ("bert", {}, {"batch": (1, 8, 32), "precision": ("fp32", "fp16")}),
    ("resnet50", {}, {"batch": (1, 16, 64), "precision": ("fp32", "bf16")}),
    ("detection", {}, {"batch": (1, 4, 8)}),
    ("lstm", {"sequence_tokens": 64}, {"batch": (16, 64, 256)}),
    (
        "llama",
        {**_LLAMA, "model": "tinyllama"},
        {"batch": (1, 8, 32), "precision": ("fp16", "int8")},
    ),
    ("llama", {**_LLAMA, "model": "llama-2-7b"}, {"batch": (1, 8, 32)}),
)
LOAD_S, LOAD_B_PER_S, INPUTS_S = 2.0, 2e9, 0.3
WITHIN = 0.01
PACES: tuple[Pace, ...] = ("reference", "quick")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare the paces of searches.

    Attributes:
        seeds: How often each is searched, each time on another board.
        only: Take programs whose name or model has this in it.
        num_trials: Trials of a search.
    """

    seeds: int = 2
    only: str = ""
    num_trials: int = 24


@dataclass(slots=True, kw_only=True)
class Course:
    """What a search had taken after each trial, and how far its choice then was off."""

    energy_j: list[float] = field(default_factory=list)
    time_s: list[float] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)

    @property
    def total(self) -> str:
        """What the whole search took."""
        return f"{self.energy_j[-1] / 1e3:.1f} kJ, {self.time_s[-1]:.0f} s"

    @property
    def needed(self) -> tuple[float, float]:
        """Joules and seconds until the choice is within 1 %; infinite if it never is."""
        for energy_j, time_s, regret in zip(self.energy_j, self.time_s, self.regret, strict=True):
            if regret <= WITHIN:
                return energy_j, time_s
        return inf, inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same search at both paces."""

    label: str
    whole: Course
    quick: Course

    @property
    def ratios(self) -> tuple[float, float]:
        """Joules and seconds of the reference over those of the quick pace."""
        (whole_j, whole_s), (quick_j, quick_s) = self.whole.needed, self.quick.needed
        return whole_j / quick_j, whole_s / quick_s

    def __str__(self) -> str:
        (whole_j, whole_s), (quick_j, quick_s) = self.whole.needed, self.quick.needed
        joules, seconds = self.ratios
        return (
            f"{self.label:34s} {whole_j / 1e3:7.1f} -> {quick_j / 1e3:6.1f} kJ {joules:5.1f}x  "
            f"{whole_s:6.0f} -> {quick_s:5.0f} s {seconds:5.1f}x  whole search {self.whole.total} "
            f"-> {self.quick.total}, regret "
            f"{self.whole.regret[-1]:.2%} and {self.quick.regret[-1]:.2%}"
        )


def figures(settings: Settings) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    pairs = list(compared(settings))
    reached = [
        p for p in pairs if np.isfinite(p.whole.needed[0]) and np.isfinite(p.quick.needed[0])
    ]
    joules, seconds = np.array([pair.ratios for pair in reached]).T
    print(
        f"{len(pairs)} searches, {len(reached)} within {WITHIN:.0%} at both paces. Joules "
        f"{_spread(joules)}, seconds {_spread(seconds)} of those of the reference's"
    )
    regrets = {
        name: [getattr(pair, name).regret[-1] for pair in pairs] for name in ("whole", "quick")
    }
    how = f"{len(pairs)} searches of {settings.num_trials} trials"
    return [
        Figure(
            name="joules until within 1 %, quick over reference, median",
            measured=1 / float(median(joules)),
            promised=1 / 8,
            unit="",
            how=how,
        ),
        share_figure(
            "final regret of EDP, mean",
            fmean(regrets["quick"]),
            100 * max(fmean(regrets["whole"]), WITHIN / 2),
            f"{how}; reference {fmean(regrets['whole']):.2%}, worst {max(regrets['whole']):.2%} "
            f"and {max(regrets['quick']):.2%}",
        ),
    ]


def _spread(ratios: np.ndarray) -> str:
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return f"a {middle:.1f}th in the median ({low:.1f} to {high:.1f} for eight in ten)"


def compared(settings: Settings) -> Iterator[Pair]:
    """Search everything at both paces, and yield and print each pair."""
    for name, knobs, axes in CASES:
        if settings.only not in f"{name} {knobs.get('model', '')}":
            continue
        for product in PRODUCTS:
            for seed in range(settings.seeds):
                space = SearchSpace(
                    name, {"sm_clock_mhz": GPUS[product].study_clocks_mhz, **axes}, knobs=knobs
                )
                courses = {
                    pace: searched(product, space, pace, seed, settings.num_trials)
                    for pace in PACES
                }
                label = f"{product} {name} {knobs.get('model', '')} {seed}"
                pair = Pair(label=label, whole=courses["reference"], quick=courses["quick"])
                print(pair, flush=True)
                yield pair


def searched(product: str, space: SearchSpace, pace: Pace, seed: int, num_trials: int) -> Course:
    """Search on a fresh board at a pace, and return what it took."""
    with tempfile.TemporaryDirectory() as store:
        address = fleet(product, seed + 1, store)[seed]
        with closing(SimulatedDevice.open(address)) as device:
            problem = Problem(space=space, objective=EDP, gpu=GPUS[product])
            screening = STRATEGIES["model-guided"](problem, seed=seed)  # type: ignore[call-arg]
            race = Race(problem, screening, num_trials=num_trials)
            search = Search(
                study="joules",
                strategy=race,
                budget=Budget(num_trials=num_trials),
                sentinel=Sentinel(configuration=space.baseline),
            )
            truth = surface_of(space, GPUS[product], device.machine.board)
            return _carried_out(search, race, device, truth, pace)


def _carried_out(
    search: Search, race: Race, device: SimulatedDevice, truth: Surface, pace: Pace
) -> Course:
    course, loader = Course(), Loader(device, keeps_formats=pace == "quick")
    begin_j, begin_s = device.read_energy_j(), device.clock.now_s()
    queue, uuid = SearchQueue(search), device.identity().uuid
    queue.resume((), (uuid,), lambda point: None)
    how = Procedure(pace="reference") if pace == "reference" else Procedure()
    with Bench(device, procedure=how.in_search()) as bench:
        while (trial := queue.take(uuid)) is not None:
            loader.load(trial.configuration)
            records = bench.measure(trial)
            measured = TrialMeasured(
                trial=trial, uuid=uuid, records=records, writer="", between_s=None, retried=False
            )
            queue.note(measured)
            now = race.standing()
            course.energy_j.append(device.read_energy_j() - begin_j)
            course.time_s.append(device.clock.now_s() - begin_s)
            place = None if now is None else truth.space.index(now.best)
            course.regret.append(inf if place is None else expm1(truth.regret[place]))
    return course


class Loader:
    """Lets a board idle for as long as a network or its inputs take to be there.

    Args:
        device: What idles.
        keeps_formats: Whether networks of other formats stay where they are.
    """

    def __init__(self, device: SimulatedDevice, *, keeps_formats: bool) -> None:
        self._device, self._keeps_formats = device, keeps_formats
        self._there: set[KnobValue] = set()
        self._last: Any = None

    def load(self, configuration: Configuration) -> None:
        """Have a configuration's network and inputs there."""
        knobs = dict(configuration.knobs)
        precision = knobs.get("precision")
        if precision not in self._there:
            cost = cached_cost(WORKLOADS[configuration.workload].from_knobs(knobs))
            self._there = self._there if self._keeps_formats else set()
            self._there.add(precision)
            self._device.clock.sleep_s(LOAD_S + cost.resident_b / LOAD_B_PER_S)
        elif configuration.knobs != self._last:
            self._device.clock.sleep_s(INPUTS_S)
        self._last = configuration.knobs


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
