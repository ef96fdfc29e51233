"""``joulelab models train``, ``evaluate`` and ``register``: power models from a table of runs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.cli.terminal import Printing
from joulelab.core.bounds import MOST_SEED, check_range
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel, load_operating_model
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.readers import Repeats, read_csv, runs_of_measurements
from joulelab.power_models.runs import Runs
from joulelab.power_models.studies import explained, learnable
from joulelab.power_models.validation import COLD, WARM, Validated, splits, validate
from joulelab.tracking.addresses import discreet
from joulelab.tracking.mlflow_registry import RegisteredModel, store_of
from joulelab.tracking.store import read_studies


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTable:
    """A command on a table of runs."""

    # CSV file with one run per line (columns application, sm_clock_mhz or sm_app_clock, power_w or
    # power_usage, time_s or run_time, activities as shares), the sweep.csv of a study, the results
    # folder of one, or a folder that holds several, searches and capped runs among them. Under a
    # power cap (power_limit_w) the clock that was seen counts.
    table: tyro.conf.Positional[Path]
    gpu: str | None = None  # GPU of all runs; a file with a column of GPUs, or a folder, says it.
    # LABEL=KEY for each label in the column gpu that is neither a key of the catalogue nor a
    # product name.
    board: tuple[str, ...] = ()
    repeats: Repeats = "refuse"  # What to do with several rows at one clock.

    def read(self) -> Runs:
        """Read the table; ConfigError if it cannot be read; names column and row."""
        return _noted(self._read())

    def learnable(self) -> Runs:
        """Read the table without what no model can learn from.

        Raises ConfigError as :meth:`read`; or if nothing is left.
        """
        return _noted(learnable(self._read()))

    def _read(self) -> Runs:
        if self.table.is_dir():
            if self.gpu is not None:
                raise ConfigError(
                    f"The results in {self.table} say which GPU they are of, so that --gpu must be "
                    f"left out, got {self.gpu!r}."
                )
            return runs_of_measurements(read_studies(self.table))
        return read_csv(self.table, gpu=self.gpu, boards=self.boards(), repeats=self.repeats)

    def boards(self) -> dict[str, str]:
        """Return what each label stands for; ConfigError if an entry is not LABEL=KEY."""
        pairs = [entry.partition("=") for entry in self.board]
        for entry, (label, _, key) in zip(self.board, pairs, strict=True):
            if not label or not key:
                raise ConfigError(f"--board takes LABEL=KEY, got {entry!r}.")
        return {label: key for label, _, key in pairs}


def _noted(runs: Runs) -> Runs:
    if runs.left_out:
        number = sum(runs.left_out.values())
        print(f"{number} runs are left out: {explained(runs.left_out)}.", file=sys.stderr)
    return runs


LEAST_LEVEL, MOST_LEVEL = 0.01, 0.9999
_COLUMNS = (
    "model", "measured at", "power", "worst", "time", "worst", "energy", "EDP regret",
    "covers", "interval",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(OfTable, Printing):
    """Fit a model of power and one of time to runs, and write them to a folder."""

    out: Path  # Folder to write.
    # Model of power; stacked weighs laws of physics, the mean curve and a forest by how well they
    # predict applications and boards of the table that were left out.
    power: str = "stacked"
    time: str = "stacked"  # Model of time.
    seed: int = 0  # Of everything random.

    def run(self) -> int:
        """Fit, write and print."""
        check_range("--seed", self.seed, 0, MOST_SEED)
        model = OperatingModel(
            power=POWER_MODELS[self.power]("power_w", seed=self.seed),
            time=POWER_MODELS[self.time]("time_s", seed=self.seed),
        )
        runs = self.learnable()
        instead = ", instead of the model that was there" if (self.out / "power").exists() else ""
        model.fit(runs).save(self.out)
        level = min(model.power.highest_level, model.time.highest_level)
        summary = {
            "folder": str(self.out),
            "power": self.power,
            "time": self.time,
            "num_runs": len(runs),
            "num_applications": len(runs.pairs),
            "highest_level": level,
            "left_out": dict(runs.left_out),
            "data_hash": model.power.data_hash,
            "training_domain": {name: list(r) for name, r in model.power.domain.ranges.items()},
        }
        sentence = (
            f"{self.power} of power and {self.time} of time, from {len(runs)} runs of "
            f"{len(runs.pairs)} applications (data {model.power.data_hash}): {self.out}{instead}"
        )
        self.show(summary, lambda: [sentence, of_intervals(level, "applications")])
        return 0


def of_intervals(level: float, groups: str) -> str:
    """Say up to which level a model gives intervals; ``groups`` are what it held out for them."""
    if not level:
        return f"It gives no intervals (predict with --level 0): they need 3 {groups} or more."
    return f"It gives intervals up to --level {level:g}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(OfTable, Printing):
    """Score models by what was held out as a whole: applications, GPUs or clock ranges."""

    # Models to compare; by default a baseline, the law of physics and the recommended one.
    model: tuple[str, ...] = ("mean", "physics", "stacked")
    held_out: str = "application"  # What is held out: application, gpu or clocks.
    # Clock over the default clock (0.01 to 2) at which held-out applications are measured besides
    # it.
    probe: float | None = None
    level: float = 0.0  # Of the intervals, below 1; 0 asks for none, which is several times faster.

    def run(self) -> int:
        """Score and print; 1 if no model could learn from the table."""
        check_range("--probe", self.probe, 0.01, 2)
        check_range("--level", self.level, 0, MOST_LEVEL)
        runs = self.learnable()
        splits(runs, self.held_out)  # refuses a table that has nothing to hold out
        found: dict[str, list[Validated]] = {}
        refused: dict[str, str] = {}
        for name in self.model:
            try:
                found[name] = self._scores(name, runs)
            except UnknownNameError:
                raise
            except ConfigError as error:
                refused[name] = str(error)
        summary = {name: [asdict(each) for each in scores] for name, scores in found.items()}
        self.show({"scores": summary, "refused": refused}, lambda: _shown(found, refused))
        return int(not found)

    def _scores(self, name: str, runs: Runs) -> list[Validated]:
        kind, level = POWER_MODELS[name], self.level or None
        settings: Mapping[str, Any] = {} if level else {"calibration_folds": 0}
        anchors = [COLD, WARM] if self.probe is None else [COLD, WARM, (1.0, self.probe)]
        return validate(
            lambda: OperatingModel(
                power=kind("power_w", **settings), time=kind("time_s", **settings)
            ),
            runs,
            self.held_out,
            anchors=anchors,
            level=level,
        )


def _shown(
    found: Mapping[str, list[Validated]], refused: Mapping[str, str]
) -> Iterator[RenderableType]:
    table = Table(*_COLUMNS, title="Mean absolute errors on what was held out")
    table.columns[-1].no_wrap = True
    for name, scores in found.items():
        for each in scores:
            table.add_row(name, *_cells(each))
    for who, regret in _baselines(found).items():
        table.add_row(who, *[""] * 6, regret)
    yield table
    yield from (Text(f"{name}: {reason}", style="yellow") for name, reason in refused.items())


def _cells(each: Validated) -> list[str]:
    power, time, energy = (each.errors[name] for name in ("power_w", "time_s", "energy_j"))
    regret, interval = each.regrets.get("edp"), each.intervals.get("power_w")
    return [
        ", ".join(f"{anchor:g}" for anchor in each.anchors) or "nothing",
        _percent(power.mean),
        _percent(power.worst_application),
        _percent(time.mean),
        _percent(time.worst_application),
        _percent(energy.mean),
        "" if regret is None else _percent(regret.mean),
        "" if interval is None else f"{interval.coverage:.2f}",
        "" if interval is None else around(interval.half_width),
    ]


def _baselines(found: Mapping[str, list[Validated]]) -> dict[str, str]:
    """Return EDP regrets by baseline, against the best measured point."""
    first = next(iter(found.values()), None)
    baselines = {} if first is None else first[0].baselines
    return {who: _percent(regrets["edp"].mean) for who, regrets in baselines.items()}


def around(half_width: float) -> str:
    """Say how far above and below a value an interval ends whose half width in logs is given."""
    above, below = np.expm1([half_width, -half_width]).tolist()
    return f"{100 * above:+.0f} {100 * below:+.0f} %"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@dataclass(frozen=True, kw_only=True)
class Registration(Printing):
    """Register a trained model."""

    name: str  # Name in the registry.
    level: float = 0.9  # Of the intervals that it answers with, unless asked for others.
    # MLflow store: sqlite:////absolute/path.db or the address of a server. By default that of
    # studies, mlflow.db in the results folder.
    tracking_uri: str | None = None

    def register(self, write: Callable[[str], RegisteredModel]) -> int:
        """Have the model written to the store, and print where it is."""
        check_range("--level", self.level, LEAST_LEVEL, MOST_LEVEL)
        uri = store_of(self.tracking_uri)
        made = write(uri)
        summary = {**asdict(made), "uri": made.uri, "tracking_uri": discreet(uri)}
        self.show(summary, lambda: [f"{made.uri} in {discreet(uri)}"])
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Registration, OfTable):
    """Register a trained model with signature, example, training domain, data hash and scores."""

    model: tyro.conf.Positional[Path]  # Folder that `joulelab models train` wrote.
    # Score it with every application held out in turn, which takes as many trainings.
    scored: bool = False

    def run(self) -> int:
        """Register and print."""
        from joulelab.tracking.mlflow_models import register_model

        model, runs = load_operating_model(self.model), self.read()
        example = sweep(profile_of(runs, *runs.pairs[0]))
        scores = validate(model.unfitted, runs) if self.scored else ()
        return self.register(
            lambda uri: register_model(
                uri, self.name, model, example, level=self.level, validated=scores
            ),
        )
