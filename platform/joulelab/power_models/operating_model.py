"""Energy, EDP and ED2P from one model of power and one of time, with their intervals."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from joulelab.core.power_law import CAP_SHARE
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.objectives import ED2P, EDP, ENERGY, TIME, Objective
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.base import PowerModel
from joulelab.power_models.board_fit import calibrated_spec
from joulelab.power_models.calibration import Interval
from joulelab.power_models.decision import NEXT_TO, Sweep, is_tried
from joulelab.power_models.queries import Queries, queries_of, sweep
from joulelab.power_models.runs import (
    Array,
    Flags,
    Names,
    Pair,
    Runs,
    held_without_clock,
    usual_held_mhz,
)
from joulelab.power_models.state import read_state

Quantity = Literal["power_w", "time_s", "energy_j", "edp_js", "ed2p_js2"]
"""What can be predicted for a clock."""
_FIXED = (
    "the best fixed clock ratio of the training table, {ratio:.2f} of {of_mhz:.0f} MHz{of}, and "
    "not the least predicted cost: {why}; measure at 0.6 of the default clock as well"
)
_MEASURED = (
    "a clock that was measured, of which the predicted cost is less than {worth:.0%} above the "
    "least: models err by that, and nothing was trained on {board}"
)
_WORTH_LEAVING = 0.03
"""Which gain is worth leaving a measured clock for on a kind of GPU that was not trained on: of 0,
0.01, 0.02, 0.03, 0.05 and 0.08 that with the least mean regret of EDP (3.3 %, against sweeps
without their scatter) after two points of five kinds that were left out: A100 SXM and PCIe, H100
NVL, V100 PCIe and SXM2. A gain of 0.6 % beside the second point of an A40 was a step of 20 %."""
_NO_LOWER = (
    "the least predicted cost from {lowest_mhz:.0f} MHz up: no lower clock was measured or tried, "
    "and where {mhz:.0f} MHz is predicted to cost less, time may rise as nothing measured "
    "foretells; measure there as well"
)
_UNKNOWN = "the board is {!r}; trained on those with the labels {} (--gpu, or the column gpu)."
_PRODUCTS = {"energy_j": ENERGY, "edp_js": EDP, "ed2p_js2": ED2P}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which row of a sweep to take, and why if it is not that of the least predicted cost."""

    row: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingModel:
    """One model of power and one of time, asked together."""

    power: PowerModel
    time: PowerModel

    def __post_init__(self) -> None:
        if (self.power.target, self.time.target) != ("power_w", "time_s"):
            raise ConfigError(
                "A model of power_w and one of time_s are required, got "
                f"{self.power.target} and {self.time.target}."
            )

    def fit(
        self, runs: Runs, groups: Names | None = None, *, profiled: Runs | None = None
    ) -> "OperatingModel":
        """Fit both models to ``runs``; returns itself."""
        self.power.fit(runs, groups, profiled=profiled)
        self.time.fit(runs, groups, profiled=profiled)
        self.power.fitted_beside(self.time)
        return self

    def unfitted(self) -> "OperatingModel":
        """Return models with the same settings that have learned nothing."""
        return OperatingModel(power=self.power.unfitted(), time=self.time.unfitted())

    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> "OperatingModel":
        """Return new models that know some measured points; these stay as they are."""
        found = _held_in(self.power, anchors, profiled or anchors)
        return OperatingModel(
            power=self.power.holding(found).adapt(anchors, profiled=profiled),
            time=self.time.holding(found).adapt(anchors, profiled=profiled),
        )

    def on_board(self, gpu: str, facts: BoardFacts) -> "OperatingModel":
        """Return new models that know what was measured of the board with the label ``gpu``.

        Raises ConfigError if it is no board of the catalogue, or a model has no law of boards.
        """
        if (spec := spec_of_boards(facts.device.name)) is None:
            raise ConfigError(
                f"A calibration must be of a GPU of the catalogue, got {facts.device.name!r}."
            )
        known = calibrated_spec(spec, facts)
        power, time = (model.on_board(gpu, known) for model in (self.power, self.time))
        return OperatingModel(power=power, time=time)

    def predict(self, queries: Queries, quantity: Quantity | Objective) -> Array:
        """Return ``quantity`` for each query, in the unit of its name, shape ``(n,)``.

        Where a profile has a power limit that its power exceeds, the device runs at the highest
        clock that keeps to it, and takes the time of that clock. Raises ConfigError as the models;
        or if there is no such quantity.
        """
        objective = _product(quantity)
        if quantity == "power_w":
            return self.power.predict(queries)
        time_s = self.time.predict(held(self.power, queries))
        if quantity == "time_s":
            return time_s
        return objective.cost(self.power.predict(queries) * time_s, time_s)

    def predict_interval(
        self, queries: Queries, quantity: Quantity | Objective, level: float = 0.9
    ) -> Interval:
        """Return where measured values are expected.

        Of a product the half widths in logs of power and of time, times its exponent, are added as
        independent ones are. Raises ConfigError as the models; or if there is no such quantity.
        """
        objective = _product(quantity)
        power = self.power.predict_interval(queries, level)
        if quantity == "power_w":
            return power
        time = self.time.predict_interval(held(self.power, queries), level)
        if quantity == "time_s":
            return time
        a, b = objective.energy_exponent, objective.time_exponent
        half = np.hypot(
            a * np.log(power.upper / power.lower) / 2,
            (a + b) * np.log(time.upper / time.lower) / 2,
        )
        outside = tuple(dict.fromkeys((*power.outside, *time.outside)))
        center = self.predict(queries, quantity)
        return Interval.around(center, half, level=level, outside=outside)

    def choose(self, queries: Queries, objective: str, *, predicted: Sweep | None = None) -> Choice:
        """Return which query of one profile to take by ``objective``, one of ``CHOSEN_BY``.

        That with the least predicted cost, from 0.6 of the profile's clock or the lowest measured
        one up; or a measured one of nearly that cost, or the one nearest to the best fixed clock
        ratio of the training table, where models have been no better than that. It is one that the
        device reaches, if any is. ``predicted`` is what the models predict for ``queries``, if it
        is known. Raises ConfigError as the models; or if ``queries`` are not of one profile.
        """
        if len(queries.profiles) != 1:
            raise ConfigError(
                f"A choice is one of the clocks of one profile, got {len(queries.profiles)}."
            )
        reached = np.flatnonzero(self.reaches(queries))
        if 0 < len(reached) < len(queries):
            known = None if predicted is None else predicted.rows(reached)
            choice = self.choose(queries.select(reached), objective, predicted=known)
            return replace(choice, row=int(reached[choice.row]))
        profile = queries.profiles[0]
        fixed = self.power.fixed_clock(profile, objective)
        if fixed is not None:
            row = int(np.argmin(np.abs(queries.sm_clock_mhz - fixed.ratio * fixed.of_mhz)))
            return Choice(row=row, reason=_FIXED.format(**asdict(fixed)))
        if predicted is None:
            power_w, time_s = self.predict(queries, "power_w"), self.predict(queries, "time_s")
            predicted = Sweep(sm_clock_mhz=queries.sm_clock_mhz, power_w=power_w, time_s=time_s)
        least = self._least(queries, objective, predicted)
        if profile.board in self.power.domain.boards:
            return least
        cost, measured = predicted.cost(objective), self._measured(queries)
        row = int(np.argmin(np.where(measured, cost, np.inf)))
        worth = (1.0 + _WORTH_LEAVING) * cost[least.row]
        if not measured[row] or row == least.row or cost[row] > worth:
            return least
        return Choice(row=row, reason=_MEASURED.format(worth=_WORTH_LEAVING, board=profile.board))

    def reaches(self, queries: Queries) -> Flags:
        """Return which queries are at clocks that no power limit keeps the device from."""
        return np.asarray(held(self.power, queries).sm_clock_mhz >= queries.sm_clock_mhz)

    def _least(self, queries: Queries, objective: str, predicted: Sweep) -> Choice:
        """Return the least predicted cost of clocks that models can tell of, if any is asked."""
        kept = np.flatnonzero(is_tried(*self._log_ratios(queries)))
        least, clocks_mhz = predicted.best(objective), predicted.sm_clock_mhz
        if not len(kept) or least in kept:
            return Choice(row=least)
        row = int(kept[predicted.rows(kept).best(objective)])
        reason = _NO_LOWER.format(lowest_mhz=clocks_mhz[kept].min(), mhz=clocks_mhz[least])
        return Choice(row=row, reason=reason)

    def _measured(self, queries: Queries) -> Flags:
        """Return which queries of one profile are at, or next to, clocks that were measured."""
        asked, anchors = self._log_ratios(queries)
        return np.asarray((np.abs(asked[:, None] - np.array(anchors)) <= NEXT_TO).any(axis=1))

    def _log_ratios(self, queries: Queries) -> tuple[Array, tuple[float, ...]]:
        """Return logs of clock ratios of one profile's queries, and of its measured points."""
        known = self.power.corrections.pairs.get(queries.profiles[0].pair)
        asked = np.log(queries.held_at(self.power.held_mhz).clock_ratio)
        return asked, () if known is None else known.anchors

    def outside(self, queries: Queries) -> tuple[str, ...]:
        """Say what of ``queries`` is outside what the models were trained on, a sentence each."""
        asked, known = queries.held_at({}), self.power.domain.gpus
        boards = dict.fromkeys(profile.gpu for profile in queries.profiles)
        labels = ", ".join(map(repr, known))
        others = [_UNKNOWN.format(board, labels) for board in boards if board not in known]
        both = (*self.power.domain.findings(asked), *self.time.domain.findings(asked))
        return tuple(dict.fromkeys((*others, *both)))

    def save(self, folder: Path) -> None:
        """Write both models below ``folder``; :func:`load_operating_model` reads them."""
        self.power.save(folder / "power")
        self.time.save(folder / "time")


def held(power: PowerModel, queries: Queries) -> Queries:
    """Return ``queries`` at the clocks at which their power limits hold the device.

    What was seen to run, or to be held, goes before what the power model says of it.
    """
    queries = queries.held_at({})
    limits_w = [profile.power_limit_w or np.inf for profile in queries.profiles]
    if not np.isfinite(limits_w).any():
        return queries
    free = replace(
        queries, profiles=tuple(replace(p, power_limit_w=None) for p in queries.profiles)
    )
    wanted_mhz, clock_mhz = queries.sm_clock_mhz, queries.sm_clock_mhz.copy()
    for number, rows in queries.by_profile():
        limit_w, profile = limits_w[number], free.profiles[number]
        if np.isfinite(limit_w) and profile.held_mhz is None:
            asked = sweep(profile)
            fits = asked.sm_clock_mhz[power.predict(asked) <= CAP_SHARE * limit_w]
            highest_mhz = max(fits.max(initial=asked.sm_clock_mhz[0]), profile.reached_mhz or 0.0)
            clock_mhz[rows] = np.minimum(wanted_mhz[rows], highest_mhz)
    return replace(queries, sm_clock_mhz=clock_mhz)


def _held_in(power: PowerModel, anchors: Runs, profiled: Runs) -> dict[Pair, float]:
    """Return the clocks in MHz at which power limits held anchors, by GPU and application.

    They are the highest at which an application needs no more, by its anchors at others; without
    those as is usual. On GPUs of the training table models know clocks as they were asked for.
    """
    is_held = held_without_clock(anchors)
    found = {}
    for pair, rows in anchors.by_pair():
        held_rows, free = rows[is_held[rows]], rows[~is_held[rows]]
        if pair[0] in power.domain.gpus or not len(held_rows):
            continue
        asked_mhz = float(anchors.sm_clock_mhz[held_rows].min())
        if not len(free):
            limit_w = (anchors.power_w / anchors.over_limit)[held_rows].max()
            found[pair] = usual_held_mhz(anchors.spec(pair[0]), asked_mhz, float(limit_w))
            continue
        known = anchors.select(free)
        asked = sweep(queries_of(known, profiled).profiles[0])
        needed_w = power.adapt(known, profiled=profiled).predict(asked)
        fits = asked.sm_clock_mhz[needed_w <= np.median(anchors.power_w[held_rows])]
        lowest_mhz = float(known.sm_clock_mhz.max())
        found[pair] = float(np.clip(fits.max(initial=0.0), lowest_mhz, asked_mhz))
    return found


def _product(quantity: Quantity | Objective) -> Objective:
    """Return the product that is asked for; time for the quantities that are none."""
    if isinstance(quantity, Objective):
        return quantity
    if quantity not in get_args(Quantity):
        raise ConfigError(f"quantity must be one of {get_args(Quantity)}, got {quantity!r}.")
    return _PRODUCTS.get(quantity, TIME)


def load_model(folder: Path) -> PowerModel:
    """Read the model that ``PowerModel.save`` wrote into ``folder``.

    Raises UnknownNameError if it is of a kind that is not registered; ConfigError if the folder
    does not hold a model.
    """
    return POWER_MODELS[str(read_state(folder).values.get("name"))].load(folder)


def load_operating_model(folder: Path) -> OperatingModel:
    """Read the models that ``OperatingModel.save`` wrote into ``folder``.

    Raises ConfigError if the folder does not hold them.
    """
    return OperatingModel(power=load_model(folder / "power"), time=load_model(folder / "time"))
