"""How far power models are off on a GPU that they were not trained on.

Usage: python benchmarks/run.py model_transfer
       python benchmarks/model_transfer.py [--data FOLDER] [MODEL ...]

All tables of ../shared/data are joined and a GPU is left out of them; a few of its applications are
then measured there at all clocks, and the others are asked about, without a measured point and with
one at the default clock. Beside each stands the same model trained on those few alone.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import Figure, print_figures
from power_models import DATA_SETS
from rich.console import Console
from rich.table import Table

from joulelab.errors import JouleLabError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.runs import Runs, joined
from joulelab.power_models.transfer import Transferred, validate_transfer

_DATA = Path(__file__).parents[2] / "shared" / "data"
_MODELS = ("mean", "lightgbm", "dnn", "physics", "meta", "bayesian")
_CONSOLE = Console(width=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU that is left out, and how many applications are then measured on it."""

    gpu: str
    num_applications: int


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
            found = [_figure(each) for each in scored.get("bayesian", [])]
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
        how=f"bayesian, {each.gpu} left out, {each.num_applications} applications measured there",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    parser.add_argument("models", nargs="*", help="members; by default those that transfer")
    chosen = parser.parse_args()
    print_figures(figures(chosen.data, chosen.models or _MODELS))
