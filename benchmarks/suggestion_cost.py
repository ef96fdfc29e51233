#!/usr/bin/env python
"""What a suggestion takes of processor and memory where there are 10,000 configurations.

Usage: python benchmarks/suggestion_cost.py [--trials 40]

The space has 61 clocks x 40 batches x 4 precisions of a network on a simulated A100, whose
roofline is in closed form here, so that the time is that of the search.
"""

import time
import tracemalloc
from dataclasses import dataclass

import numpy as np
import tyro
from figures import Figure, print_figures
from search_surface import PRECISIONS, SPEC, reading

from joulelab.core.configuration import Configuration
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

_NUM_BATCHES = 40
_WORK_S = dict(zip(PRECISIONS["vit"], (10e-3, 2e-3, 1e-3, 1.4e-3), strict=True))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Ask for trials among 10,000 configurations.

    Attributes:
        trials: How many.
    """

    trials: int = 40


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures."""
    settings = settings or Settings()
    axes = {
        "sm_clock_mhz": SPEC.study_clocks_mhz,
        "batch": tuple(range(1, _NUM_BATCHES + 1)),
        "precision": PRECISIONS["vit"],
    }
    space = SearchSpace("vit", axes)
    took_s = _processor_s(space, settings.trials)
    most_b = _memory_b(space, settings.trials)
    how = f"{len(space)} configurations, {len(took_s)} trials one after the other"
    return [
        Figure(name="processor time of a suggestion, median", measured=float(np.median(took_s)),
               promised=0.1, unit="s", how=f"{how}; longest {max(took_s):.2f} s"),
        Figure(name="most memory of a suggestion", measured=most_b / 1e6, promised=200.0,
               unit="MB", how=how),
    ]  # fmt: skip


def _processor_s(space: SearchSpace, num_trials: int) -> list[float]:
    strategy, random, found = _strategy(space), np.random.default_rng(0), []
    for _ in range(num_trials):
        start_s = time.process_time()
        asked = strategy.ask()
        found.append(time.process_time() - start_s)
        if asked is None:
            break
        strategy.tell(_outcome(asked, random))
    return found[1:]


def _memory_b(space: SearchSpace, num_trials: int) -> int:
    strategy, random = _strategy(space), np.random.default_rng(0)
    tracemalloc.start()
    for _ in range(num_trials):
        if (asked := strategy.ask()) is None:
            break
        strategy.tell(_outcome(asked, random))
    _, most_b = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most_b


def _strategy(space: SearchSpace) -> ModelGuided:
    return ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"], gpu=SPEC))


def _outcome(asked: Configuration, random: np.random.Generator) -> Outcome:
    knobs, top_mhz = dict(asked.knobs), max(SPEC.study_clocks_mhz)
    x = (asked.point.sm_clock_mhz or top_mhz) / top_mhz
    work_s = _WORK_S[str(knobs["precision"])] * (x**-4 + 0.5**4) ** 0.25
    time_s = work_s + 8e-3 / int(knobs["batch"] or 1)
    squared = (1.0 + max(0.0, x - 0.7)) ** 2
    power_w = 80.0 + 60.0 * x * squared + 200.0 * x * squared * work_s / time_s
    power_w *= float(np.exp(random.normal(0.0, 0.005)))
    return Outcome(candidate=asked, figures=reading(power_w * time_s, time_s))


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
