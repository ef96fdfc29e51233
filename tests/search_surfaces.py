"""Surfaces of energy and time in closed form, for searches to be tried on."""

from dataclasses import dataclass
from functools import cache
from math import exp, log
from random import Random

from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace

CLOCKS_MHZ = tuple(range(1410, 509, -15))
BATCHES = (1, 4, 16, 32, 64, 128)
SPEED = {"fp32": 0.1, "tf32": 0.5, "bf16": 1.0, "int8": 0.7}


@cache
def large_space():
    return SearchSpace(
        "vit",
        {"sm_clock_mhz": CLOCKS_MHZ, "batch": BATCHES, "precision": tuple(SPEED)},
    )


@cache
def medium_space():
    """Four hundred configurations: a quarter of the clocks."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::4], "batch": BATCHES, "precision": tuple(SPEED)}
    return SearchSpace("vit", axes)


def small_space():
    return SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ[::20], "batch": (1, 64)})


@dataclass
class Surface:
    """A program that waits 8 ms a call, on a board that draws 80 W of constant power.

    Time per image is a wait shared by the batch and a roofline; voltage rises above 1000 MHz.
    """

    space: SearchSpace
    noise: float = 0.0
    cap_w: float = float("inf")

    def truth(self, configuration):
        """Return energy, time, and whether the power cap holds the clock."""
        top = max(CLOCKS_MHZ)
        clock = configuration.point.sm_clock_mhz or top
        power, time = self._held(configuration, clock)
        limit_w = min(self.cap_w, configuration.point.power_limit_w or self.cap_w)
        capped = power > limit_w
        while power > limit_w:
            clock -= 5
            power, time = self._held(configuration, clock)
        return power * time, time, capped

    def _held(self, configuration, clock_mhz):
        knobs = dict(configuration.knobs)
        x = clock_mhz / max(CLOCKS_MHZ)
        work = 1e-3 / SPEED[knobs["precision"]] * (x**-4 + 0.5**4) ** 0.25
        time = work + 8e-3 / knobs["batch"]
        squared = (1 + max(0.0, clock_mhz - 1000) / 1000) ** 2
        return 80 + 60 * x * squared + 200 * x * squared * work / time, time

    def figures(self, configuration, random):
        energy, time, _ = self.truth(configuration)
        energy *= exp(random.gauss(0.0, self.noise))
        return Figures(
            energy_j=energy,
            energy_u_j=energy * self.noise,
            time_s=time,
            time_u_s=0.0,
            latency_s=dict(configuration.knobs).get("batch", 1) * time,
            power_w=energy / time,
            board="GPU-1",
        )

    def outcome(self, configuration, random):
        figures = self.figures(configuration, random)
        return Outcome(
            candidate=configuration, figures=figures, capped=self.truth(configuration)[2]
        )

    def log_edp(self, configuration):
        energy, time, _ = self.truth(configuration)
        return log(energy * time)

    def best(self):
        return min(self.space, key=self.log_edp)


def clock_outcome(candidate):
    """Energy x delay is lowest at 1200 MHz; the driver's own clock is the highest."""
    clock = (candidate.point.sm_clock_mhz or 1800) / 1200
    slower = 1.1 if dict(candidate.knobs).get("precision") == "fp16" else 1.0
    figures = Figures(
        energy_j=slower * (1 + log(clock) ** 2) * clock,
        energy_u_j=0.001,
        time_s=1 / clock,
        time_u_s=0.0001,
        power_w=300.0,
        board="a",
    )
    return Outcome(candidate=candidate, figures=figures)


def problem_on(space, objective="edp", constraints=()):
    return Problem(space=space, objective=OBJECTIVES[objective], constraints=tuple(constraints))


def searched(strategy, surface, *, most, seed=0):
    """Measure what the strategy asks for, one after the other; return the outcomes."""
    random, outcomes = Random(seed), []
    while len(outcomes) < most and (asked := strategy.ask()) is not None:
        outcomes.append(surface.outcome(asked, random))
        strategy.tell(outcomes[-1])
    return outcomes
