"""``joulelab models predict`` and ``sweep``: power, time and energy at some or all clocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import get_args

import tyro
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from joulelab.cli.power_models import MOST_LEVEL, OfTable, around
from joulelab.cli.terminal import Printing
from joulelab.core.bounds import MOST_MHZ, MOST_S, check_positive, check_range
from joulelab.core.device import DeviceIdentity
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.hardware.board_facts import BoardFacts, read_board_facts
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.objectives import OBJECTIVES
from joulelab.power_models.calibration import Interval
from joulelab.power_models.decision import CHOSEN_BY
from joulelab.power_models.decision import Sweep as Predicted
from joulelab.power_models.operating_model import (
    Choice,
    OperatingModel,
    Quantity,
    held,
    load_operating_model,
)
from joulelab.power_models.queries import Profile, Queries, profile_of, sweep
from joulelab.power_models.runs import Array, Runs
from joulelab.tracking.mlflow_calibrations import calibration_file, own_calibration
from joulelab.tracking.mlflow_registry import reference, store_of
from joulelab.tracking.store import read_studies


@dataclass(frozen=True, kw_only=True)
class OnBoard:
    """Options of commands that ask power models about one board."""

    # File of the board that `joulelab calibrate --board` wrote, or models:/NAME that it registered:
    # the models' law takes the board's own constants. By default the newest of the board, driver
    # and host of a results folder that the store has.
    calibration: Path | None = None
    # MLflow store of registered models and calibrations; by default that of studies.
    tracking_uri: str | None = None

    def on_board(
        self, model: OperatingModel, gpu: str, board: str, table: Path | None = None
    ) -> OperatingModel:
        """Return ``model`` with what was measured of the board with the label ``gpu``.

        ``board`` is its kind; ``table`` is where its runs are, of which a results folder says on
        which board they ran. Raises ConfigError if the calibration is of another kind, or of
        another board, driver or host than the runs; or if the models have no law.
        """
        ran_on = _ran_on(table, gpu)
        if (facts := self._facts(ran_on)) is None:
            return model
        spec = spec_of_boards(facts.device.name)
        if spec is None or spec.key != board:
            raise ConfigError(
                f"The calibration must be of the kind of GPU that is asked about, {board}, but is "
                f"of {facts.device.name}."
            )
        return model.on_board(gpu, facts)

    def _facts(self, ran_on: list[tuple[DeviceIdentity, str]]) -> BoardFacts | None:
        if self.calibration is not None:
            uri = store_of(self.tracking_uri)
            facts = read_board_facts(calibration_file(self.calibration, uri))
            for device, host in ran_on:
                facts.check(device, host)
            return facts
        if len(ran_on) != 1:
            return None
        return own_calibration(store_of(self.tracking_uri), *ran_on[0])


def _ran_on(table: Path | None, gpu: str) -> list[tuple[DeviceIdentity, str]]:
    if table is None or not table.is_dir():
        return []
    found = {}
    for each in read_studies(table):
        device, host = each.device, each.provenance.hostname
        if device.name == gpu:
            found[device.uuid, device.driver_version, device.vbios_version, host] = device, host
    return list(found.values())


_SHOWN: tuple[Quantity, ...] = ("power_w", "time_s", "energy_j", "edp_js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict(OfTable, OnBoard, Printing):
    """Predict an application at some clocks, from its run at the default clock in the table."""

    # Folder that `joulelab models train` wrote, or a registered model, models:/NAME or
    # models:/NAME/VERSION.
    model: tyro.conf.Positional[str]
    sm_clock_mhz: tuple[float, ...]  # Clocks to predict.
    application: str | None = None  # Which application of the table; by default the only one.
    anchored: bool = False  # Take the power and time that were measured in the table into account.
    level: float = 0.9  # Of the intervals; 0 asks for none.
    # Refuse what lies outside the training domain, instead of widening.
    refuse_outside: bool = False

    def run(self) -> int:
        """Predict and print."""
        _check(self.level, self.sm_clock_mhz)
        model, runs = found_model(self.model, self.tracking_uri), self.read()
        pair = _one_pair(runs, self.application)
        model = self.on_board(model, pair[0], runs.boards[pair[0]], self.table)
        queries = sweep(profile_of(runs, *pair), self.sm_clock_mhz)
        findings = model.outside(queries)
        if self.refuse_outside and findings:
            raise ConfigError(f"Queries must be inside the training domain: {findings[0]}")
        if self.anchored:
            model = model.adapt(runs.select(runs.of_pair(*pair)))
        found = Answers.of(model, queries, self.level)
        title = f"{pair[1]} on {pair[0]}: best of these clocks are marked"
        self.show(found.summary(), lambda: found.shown(title))
        return 0


def found_model(where: str, tracking_uri: str | None = None) -> OperatingModel:
    """Return the model of a folder, or a registered one of ``models:/NAME[/VERSION]``.

    Raises ConfigError if there is none in the folder, or the version is no number; TrackingError if
    the store has none of that name and version.
    """
    if (asked := reference(where)) is None:
        return load_operating_model(Path(where))
    from joulelab.tracking.mlflow_models import load_registered

    return load_registered(store_of(tracking_uri), *asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(OnBoard, Printing):
    """Predict a profile at every clock of its GPU and mark the best of energy, EDP and ED2P."""

    # Folder that `joulelab models train` wrote, or models:/NAME or models:/NAME/VERSION.
    model: tyro.conf.Positional[str]
    board: str  # GPU, by its key in the catalogue.
    # FP64 activity plus half of FP32's at the default clock, 0 to 1.
    fp_active: float | None = None
    dram_active: float | None = None  # Memory activity there; by default unread, as the others.
    sm_active: float | None = None  # SM activity there.
    tensor_active: float | None = None  # Tensor activity there.
    gr_engine_active: float | None = None  # Graphics engine activity there.
    time_s: float = 1.0  # How long the work takes there where no power limit holds the clock.
    gpu: str | None = None  # Label under which the model knows the board; by default the key.
    sm_clock_mhz: tuple[float, ...] = ()  # Clocks; by default all of the GPU.
    level: float = 0.0  # Of the intervals; 0 asks for none.

    def run(self) -> int:
        """Predict and print."""
        _check(self.level, self.sm_clock_mhz)
        check_positive("--time-s", self.time_s, MOST_S)
        model = found_model(self.model, self.tracking_uri)
        model = self.on_board(model, self.gpu or self.board, self.board)
        queries = sweep(self._profile(model), self.sm_clock_mhz or None)
        found = Answers.of(model, queries, self.level)
        title = f"{self.board}: best clocks are marked"
        self.show(found.summary(), lambda: found.shown(title))
        return 0

    def _profile(self, model: OperatingModel) -> Profile:
        names = ("fp_active", "dram_active", "sm_active", "tensor_active", "gr_engine_active")
        activity = {name: getattr(self, name) for name in names}
        return Profile(
            application="profile",
            gpu=self.gpu or self.board,
            board=self.board,
            clock_mhz=float(GPUS[self.board].default_clock_mhz),
            activity={name: value for name, value in activity.items() if value is not None},
            time_s=self.time_s,
            power_limit_w=float(GPUS[self.board].default_power_limit_w),
        )


_HELD = (
    "The power limit holds it at {mhz:g} MHz: there it runs whatever higher clock is asked for, "
    "and none of those is marked."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Clocks and every quantity there as columns, intervals if asked for, and what to choose."""

    columns: Mapping[str, Array]
    intervals: Mapping[str, Interval]
    outside: Sequence[str]
    choices: Mapping[str, Choice]  # by objective; empty where no clock is reached
    held_mhz: float | None  # where a power limit holds the clocks above; None where it holds none

    @classmethod
    def of(cls, model: OperatingModel, queries: Queries, level: float) -> "Answers":
        """Ask a model, for intervals as well unless ``level`` is 0."""
        names: tuple[Quantity, ...] = get_args(Quantity)
        columns = {"sm_clock_mhz": queries.sm_clock_mhz}
        columns |= {name: model.predict(queries, name) for name in names}
        asked = names if level else ()
        ends: dict[str, Interval] = {
            name: model.predict_interval(queries, name, level) for name in asked
        }
        known = ("sm_clock_mhz", "power_w", "time_s")
        predicted = Predicted(**{name: columns[name] for name in known})
        running_mhz = held(model.power, queries).sm_clock_mhz
        is_held = running_mhz < queries.sm_clock_mhz
        chosen = () if is_held.all() else CHOSEN_BY
        choices = {name: model.choose(queries, name, predicted=predicted) for name in chosen}
        return cls(
            columns=columns,
            intervals=ends,
            outside=model.outside(queries),
            choices=choices,
            held_mhz=float(running_mhz.max()) if is_held.any() else None,
        )

    def summary(self) -> dict[str, object]:
        """Return all of it as JSON can hold it; reasons where a choice has one."""
        clocks_mhz = self.columns["sm_clock_mhz"]
        return {
            "predictions": self.rows(),
            "best_clock_mhz": {n: float(clocks_mhz[c.row]) for n, c in self.choices.items()},
            "choice_reason": {n: c.reason for n, c in self.choices.items() if c.reason},
            "held_mhz": self.held_mhz,
            "outside": list(self.outside),
        }

    def rows(self) -> list[dict[str, float]]:
        """Return one mapping per clock, with the ends of intervals as ``_lower`` and ``_upper``."""
        bounds = {f"{name}_lower": each.lower for name, each in self.intervals.items()}
        bounds |= {f"{name}_upper": each.upper for name, each in self.intervals.items()}
        whole = {**self.columns, **bounds}
        rows = zip(*whole.values(), strict=True)
        return [dict(zip(whole, map(float, row), strict=True)) for row in rows]

    def shown(self, title: str) -> Iterator[RenderableType]:
        """Lay out a table with how far each interval reaches, and mark what to choose."""
        table = Table("MHz", *_SHOWN, "", title=escape(title))
        for row, clock_mhz in enumerate(self.columns["sm_clock_mhz"]):
            table.add_row(f"{clock_mhz:g}", *(self._cell(n, row) for n in _SHOWN), self._mark(row))
        yield table
        for name, choice in self.choices.items():
            if choice.reason:
                text = f"By {OBJECTIVES[name].label} the choice is {choice.reason}."
                yield Text(text, style="yellow")
        if self.held_mhz is not None:
            yield Text(_HELD.format(mhz=self.held_mhz), style="yellow")
        widened = ", intervals widened" if self.intervals else ""
        for text in self.outside:
            yield Text(f"Outside the training domain{widened}: {text}", style="yellow")

    def _mark(self, row: int) -> str:
        chosen = (name for name, choice in self.choices.items() if choice.row == row)
        return ", ".join(OBJECTIVES[name].label for name in chosen)

    def _cell(self, name: str, row: int) -> str:
        value, interval = f"{self.columns[name][row]:.4g}", self.intervals.get(name)
        if interval is None:
            return value
        return f"{value} {around(log(interval.upper[row] / interval.lower[row]) / 2)}"


def _check(level: float, clocks_mhz: Sequence[float]) -> None:
    check_range("--level", level, 0, MOST_LEVEL)
    for clock_mhz in clocks_mhz:
        check_positive("--sm-clock-mhz", clock_mhz, MOST_MHZ)


def _one_pair(runs: Runs, application: str | None) -> tuple[str, str]:
    """Return the GPU label and the name of the one application that is meant.

    Raises ConfigError if there is none, or several and none was named.
    """
    found = [pair for pair in runs.pairs if application in (None, pair[1])]
    if len(found) != 1:
        known = ", ".join(f"{name} on {gpu}" for gpu, name in runs.pairs[:12])
        raise ConfigError(
            f"One application of the table is required (--application), got {len(found)} that "
            f"match {application!r} among {known}."
        )
    return found[0]
