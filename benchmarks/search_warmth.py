#!/usr/bin/env python
"""What the temperatures of trials tell the model of a search.

Usage: python benchmarks/search_warmth.py [--seeds 12] [--surface vit]

Two boards of a simulated A100 start cold, in rooms 8 K apart whose air comes and goes by 4 K in 20
minutes, with the sink and the time constants of the catalogue. Power grows with temperature by what
was published of an A100 under load, several times what the simulated board leaks. Each search is
run twice, with the temperatures of its trials and without; what it expects of configurations
within 10 % of the least EDP, against the baseline, is compared with the truth of warm boards.
"""

from dataclasses import dataclass, replace
from math import exp, pi, sin

import numpy as np
import tyro
from figures import Figure, print_figures
from search_surface import ENERGY_NOISE, SPEC, Surface, simulated

from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.strategies.model_guided import ModelGuided

POWER_PER_K = 0.0027
"""An A100 under load grew by 2.4 % in 4 s, in which its die warmed by some 9 K."""
_ROOMS_K, _BOARD_SD = (0.0, 8.0), 0.02
_AIR_K, _AIR_PERIOD_S = 4.0, 1200.0
_TRIAL_S, _GAP_S, _GAP_W = 25.0, 6.0, 60.0
_SENTINEL_EVERY = 10
_MOST = 40
_NEAR = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search with and without the temperatures of trials.

    Attributes:
        seeds: How often each search is run.
        surface: Network on a simulated A100.
        power_per_k: Relative growth of power by temperature.
    """

    seeds: int = 12
    surface: str = "vit"
    power_per_k: float = POWER_PER_K


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How a search ended.

    Attributes:
        errors: Of the expected logarithms of EDP over the baseline's, near the optimum.
        stated: Their standard deviations, as the model states them.
        regret: EDP of the chosen configuration over the least, less 1.
    """

    errors: np.ndarray
    stated: np.ndarray
    regret: float


class Board:
    """A board in a room, from cold.

    Args:
        surface: What configurations cost on a warm board in the room of the catalogue.
        room_k: By how much its room is warmer than that.
        power_per_k: Relative growth of power by temperature.
        gain: Relative power over that of the surface.
        random: Of noise, and of where the room's air begins.
    """

    def __init__(
        self,
        surface: Surface,
        room_k: float,
        power_per_k: float,
        gain: float,
        random: np.random.Generator,
    ) -> None:
        self._surface, self._room_k, self._per_k, self._gain = surface, room_k, power_per_k, gain
        self._random, self._phase = random, float(random.uniform(0, 2 * pi))
        self._nodes_k = np.zeros(3)
        self._now_s = 0.0

    def measure(self, place: int, name: str, *, is_told: bool) -> Outcome:
        """Measure a configuration once, from a pause on."""
        outcome = self._surface.outcome(place, self._random)
        figures = outcome.figures
        if figures is None:
            return outcome
        self._warm(_GAP_W, _GAP_S)
        self._warm(figures.power_w, _TRIAL_S)
        warm_k = float(np.sum(SPEC.thermal.resistance_k_per_w)) * figures.power_w
        air_k = self._room_k + _AIR_K * sin(2 * pi * self._now_s / _AIR_PERIOD_S + self._phase)
        off_k = air_k + float(self._nodes_k.sum()) - warm_k
        growth = 1.0 if outcome.capped else (1 + self._gain) * exp(self._per_k * off_k)
        energy_j = figures.energy_j * growth
        shown = replace(
            figures,
            energy_j=energy_j,
            energy_u_j=ENERGY_NOISE * energy_j,
            power_w=energy_j / figures.time_s,
            temperature_c=round(SPEC.thermal.ambient_c + warm_k + off_k) if is_told else None,
            board=name,
        )
        return replace(outcome, figures=shown)

    def _warm(self, power_w: float, length_s: float) -> None:
        steady_k = np.array(SPEC.thermal.resistance_k_per_w) * power_w
        left = np.exp(-length_s / np.array(SPEC.thermal.time_constant_s))
        self._nodes_k = steady_k + (self._nodes_k - steady_k) * left
        self._now_s += length_s


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures."""
    settings = settings or Settings()
    surface = simulated(settings.surface)
    told, untold = (
        [_search(surface, settings, seed, is_told=is_told) for seed in range(settings.seeds)]
        for is_told in (True, False)
    )
    how = (
        f"{settings.seeds} searches of {settings.surface} on two boards; "
        f"{100 * settings.power_per_k:g} % of power a kelvin"
    )
    errors = [_rms([each.errors for each in found]) for found in (told, untold)]
    over = [_rms([each.errors / each.stated for each in found]) for found in (told, untold)]
    worst = [max(each.regret for each in found) for found in (told, untold)]
    return [
        Figure(name="error of expected EDP over that without temperatures",
               measured=errors[0] / errors[1], promised=1.0, unit="",
               how=f"{errors[0]:.2%} and {errors[1]:.2%}; {how}"),
        Figure(name="error of expected EDP over what the model states", measured=over[0],
               promised=2.0, unit="", how=f"{over[1]:.2f} without temperatures; {how}"),
        Figure(name="EDP regret, worst", measured=100 * worst[0], promised=1.0, unit="%",
               how=f"{worst[1]:.2%} without temperatures; {how}"),
    ]  # fmt: skip


def _search(surface: Surface, settings: Settings, seed: int, *, is_told: bool) -> Found:
    random = np.random.default_rng(seed)
    gains = random.normal(0.0, _BOARD_SD, len(_ROOMS_K))
    boards = [
        Board(surface, room_k, settings.power_per_k, float(gain), random)
        for room_k, gain in zip(_ROOMS_K, gains, strict=True)
    ]
    problem = Problem(space=surface.space, objective=OBJECTIVES["edp"], gpu=SPEC)
    strategy = ModelGuided(problem)
    race = Race(problem, strategy)
    for number in range(_MOST):
        which, turn = number % len(boards), number // len(boards)
        place = 0
        if turn % (_SENTINEL_EVERY + 1):
            asked = race.ask()
            if asked is None:
                break
            place = surface.space.index(asked)
        race.tell(boards[which].measure(place, f"board {which}", is_told=is_told))
    return _found(surface, strategy, race)


def _found(surface: Surface, strategy: ModelGuided, race: Race) -> Found:
    forecast, now = strategy.forecast(), race.standing()
    logs = np.log(surface.energy_j) + np.log(surface.time_s)
    near = surface.regret < _NEAR
    errors = (forecast.log_cost - forecast.log_cost[0]) - (logs - logs[0])
    stated = np.hypot(forecast.deviation(0), np.sqrt(2 * forecast.unexplained))
    chosen = surface.space.index(now.best) if now is not None else 0
    return Found(
        errors=errors[near],
        stated=stated[near],
        regret=float(np.expm1(surface.regret[chosen])),
    )


def _rms(values: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(values) ** 2)))


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
