"""How far power models are off on a GPU that they were not trained on.

Usage: python benchmarks/run.py model_transfer
       python benchmarks/model_transfer.py [--data FOLDER] [MODEL ...]

All tables of ../shared/data are joined and a GPU is left out of them; a few of its applications are
then measured there at all clocks, and the others are asked about, without a measured point and with
one at the default clock. Beside each stands the same model trained on those few alone.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from figures import Figure, print_figures
from power_models import DATA_SETS
from rich.console import Console
from rich.table import Table

from joulelab.errors import ConfigError, JouleLabError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.decision import ErrorScores, error_scores
from joulelab.power_models.operating_model import OperatingModel, Quantity
from joulelab.power_models.queries import queries_of
from joulelab.power_models.runs import Array, Flags, Runs
from joulelab.power_models.validation import COLD, SCORED, WARM

_DATA = Path(__file__).parents[2] / "shared" / "data"
_MODELS = ("mean", "lightgbm", "dnn", "physics")
_CONSOLE = Console(width=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU that is left out, and how many applications are then measured on it."""

    gpu: str
    num_applications: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """Scores on the applications of one GPU that were not measured there.

    Attributes:
        gpu: Label of the GPU.
        num_applications: How many were measured there, at all clocks.
        anchors: Clock ratios at which the others were measured; they are not scored.
        adapted: Scores of a model trained on the other GPUs and adapted to this one.
        from_scratch: Scores of a model trained on the measured applications alone.
    """

    gpu: str
    num_applications: int
    anchors: tuple[float, ...]
    adapted: dict[Quantity, ErrorScores]
    from_scratch: dict[Quantity, ErrorScores]


TARGETS = (
    Target(gpu="A100(GA100)", num_applications=5),
    Target(gpu="A100-SXM4-80GB", num_applications=5),
    Target(gpu="A40", num_applications=2),
)


def figures(folder: Path = _DATA, names: Sequence[str] = _MODELS) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    if not all((folder / data.file).is_file() for data in DATA_SETS):
        _CONSOLE.print(f"No measured runs at {folder}; left out.")
        return []
    runs = joined(*(data.read(folder) for data in DATA_SETS))
    found = []
    for target in TARGETS:
        scored = {name: _scored(name, runs, target) for name in names}
        _print_scores(target, scored)
        if target == TARGETS[0]:
            found = [_figure(each) for each in scored.get("physics", [])]
    return found


def _scored(name: str, runs: Runs, target: Target) -> list[Transferred]:
    member = POWER_MODELS[name]
    try:
        return validate_transfer(
            lambda: OperatingModel(
                power=member("power_w", calibration_folds=0),
                time=member("time_s", calibration_folds=0),
            ),
            runs,
            target.gpu,
            num_applications=target.num_applications,
        )
    except JouleLabError as error:
        _CONSOLE.print(f"  {name}: {error}", highlight=False)
        return []


def _print_scores(target: Target, scored: dict[str, list[Transferred]]) -> None:
    table = Table(
        *("model", "measured at", "power", "worst", "from scratch", "time", "from scratch"),
        title=f"{target.gpu} left out, {target.num_applications} applications measured there",
    )
    for name, both in scored.items():
        for each in both:
            power, time = each.adapted["power_w"], each.adapted["time_s"]
            shares = (
                *(power.mean, power.worst_application, each.from_scratch["power_w"].mean),
                *(time.mean, each.from_scratch["time_s"].mean),
            )
            anchors = ", ".join(f"{anchor:g}" for anchor in each.anchors) or "-"
            table.add_row(name, anchors, *(f"{100 * share:.1f} %" for share in shares))
    _CONSOLE.print(table)


def _figure(each: Transferred) -> Figure:
    anchored = "measured at the default clock" if each.anchors else "not measured"
    return Figure(
        name=f"power on an unseen GPU, the application {anchored} there",
        measured=100 * each.adapted["power_w"].mean,
        promised=10.0,
        unit="%",
        how=f"physics, {each.gpu} left out, {each.num_applications} applications measured there",
    )


def joined(*tables: Runs) -> Runs:
    """Return the rows of several tables; an activity that one of them lacks is unread there.

    Raises:
        ConfigError: If they disagree on what a label stands for, or repeat each other.
    """
    boards: dict[str, str] = {}
    for table in tables:
        for label, key in table.boards.items():
            if boards.setdefault(label, key) != key:
                raise ConfigError(f"{label!r} must stand for one GPU, got {boards[label]}, {key}.")
    activities = dict.fromkeys(name for table in tables for name in table.activity)
    return Runs(
        application=np.concatenate([table.application for table in tables]),
        gpu=np.concatenate([table.gpu for table in tables]),
        boards=boards,
        sm_clock_mhz=np.concatenate([table.sm_clock_mhz for table in tables]),
        observed_sm_clock_mhz=np.concatenate([table.observed_sm_clock_mhz for table in tables]),
        power_w=np.concatenate([table.power_w for table in tables]),
        time_s=np.concatenate([table.time_s for table in tables]),
        activity={
            name: np.concatenate([t.activity.get(name, np.full(len(t), np.nan)) for t in tables])
            for name in activities
        },
        power_limit_w=np.concatenate([table.power_limit_w for table in tables]),
        row=np.concatenate([table.row for table in tables]),
    )


def validate_transfer(
    make: Callable[[], OperatingModel],
    runs: Runs,
    gpu: str,
    *,
    num_applications: int = 5,
    num_draws: int = 4,
    seed: int = 0,
) -> list[Transferred]:
    """Score a model on a GPU of which it knows ``num_applications`` applications.

    Args:
        make: Makes an unfitted model.
        runs: Runs on this GPU and others. An application that also ran on another GPU is trained
            on there.
        gpu: Label of the GPU.
        num_applications: How many applications are measured there, 2 or more.
        num_draws: How often these are drawn; scores are over all draws.
        seed: Of the draws.

    Returns:
        Scores without and with one anchor per application that is asked about.

    Raises:
        ConfigError: If there is no other GPU, or too few applications.
    """
    here = runs.gpu == gpu
    names = np.unique(runs.application[here])
    if len(names) <= num_applications or here.all():
        raise ConfigError(
            f"More than {num_applications} applications on {gpu!r} and runs on another GPU are "
            f"required, got {len(names)} and {int((~here).sum())} runs."
        )
    general = make().fit(runs.select(~here))
    scores = {anchors: _Scores(anchors) for anchors in (COLD, WARM)}
    random = np.random.default_rng(seed)
    for _ in range(num_draws):
        known = here & np.isin(runs.application, random.permutation(names)[:num_applications])
        measured, asked = runs.select(known), runs.select(here & ~known)
        adapted, scratch = general.adapt(measured), make().fit(measured)
        for each in scores.values():
            each.add(adapted, scratch, asked)
    return [each.transferred(gpu, num_applications) for each in scores.values()]


class _Scores:
    """Predictions of every draw for one choice of anchors."""

    def __init__(self, anchors: tuple[float, ...]) -> None:
        self._anchors = anchors
        self._asked: list[Runs] = []
        self._predicted: dict[tuple[bool, Quantity], list[Array]] = {}

    def add(self, adapted: OperatingModel, scratch: OperatingModel, asked: Runs) -> None:
        queries = queries_of(asked)
        anchored = queries.nearest(self._anchors)
        self._asked.append(asked.select(~anchored))
        for is_scratch, model in ((False, adapted), (True, scratch)):
            known = _anchored(model, asked, anchored)
            for name in SCORED:
                values = known.predict(queries.select(~anchored), name)
                self._predicted.setdefault((is_scratch, name), []).append(values)

    def transferred(self, gpu: str, num_applications: int) -> Transferred:
        return Transferred(
            gpu=gpu,
            num_applications=num_applications,
            anchors=self._anchors,
            adapted=self._scored(False),
            from_scratch=self._scored(True),
        )

    def _scored(self, is_scratch: bool) -> dict[Quantity, ErrorScores]:
        application = np.concatenate([asked.application for asked in self._asked])
        return {
            name: error_scores(
                np.concatenate([getattr(asked, name) for asked in self._asked]),
                np.concatenate(self._predicted[is_scratch, name]),
                application,
            )
            for name in SCORED
        }


def _anchored(model: OperatingModel, asked: Runs, anchored: Flags) -> OperatingModel:
    """Return ``model`` with the chosen rows as anchors, if there are any."""
    if not anchored.any():
        return model
    return model.adapt(asked.select(anchored), profiled=asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    parser.add_argument("models", nargs="*", help="members; by default those that transfer")
    chosen = parser.parse_args()
    print_figures(figures(chosen.data, chosen.models or _MODELS))
