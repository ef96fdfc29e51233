"""Where errors on kinds of GPU that models were not trained on come from.

Usage: python benchmarks/unseen_boards.py [--data FOLDER]

Each kind is left out of all tables of ../shared/data and its applications are measured once, or
twice. Regrets of EDP (against sweeps without their scatter) are those of the clock of least
predicted cost: as predicted, with power as measured, and with time as measured. Errors of the power
of `physics` are from one point: with some share of what other boards depart by from the catalogue
(1 is what the model does), and with parts of the board's law learned from all sweeps of that board.
An A40 starts from the clock that was asked for, and then from that at which its limit held it (1480
MHz: from there on neither power nor time change).
"""

import argparse
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from model_transfer import joined
from power_models import DATA_SETS
from smoothing import smoothed_regret

from joulelab.power_models.calibration import SECOND_POINT
from joulelab.power_models.decision import Sweep, measured_sweep
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.physics_laws import expected_departure
from joulelab.power_models.members.stacked import StackedModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import queries_of
from joulelab.power_models.runs import Array, Flags, Pair, Runs
from joulelab.power_models.validation import WARM

_DATA = Path(__file__).parents[2] / "shared" / "data"
_KINDS = {
    "A100 SXM": ("A100(GA100)", "A100-SXM4-80GB"),
    "A100 PCIe": ("A100",),
    "H100 NVL": ("H100",),
    "V100": ("V100",),
    "A40": ("A40",),
}
_HELD_MHZ = {"A40": 1480.0}
_PARTS = {"at rest": (0, 1, 2), "voltage": (3, 4, 5), "memory": (6, 7), "all": tuple(range(8))}
"""Positions in ``physics_laws.SHAPE``."""
_SHARES = (0.0, 0.5, 1.0)
_LEVEL = 0.9
_TWO = (1.0, SECOND_POINT)


def main(folder: Path) -> None:
    """Print regrets, coverage and errors by cause for each kind."""
    runs = joined(*(data.read(folder) for data in DATA_SETS))
    for kind, labels in _KINDS.items():
        is_out = np.isin(runs.gpu, labels)
        model = OperatingModel(power=StackedModel(), time=StackedModel("time_s"))
        model = model.fit(runs.select(~is_out))
        there, num_trained = runs.select(is_out), len(set(runs.application[~is_out].tolist()))
        held = dict.fromkeys(there.pairs, _HELD_MHZ[kind]) if kind in _HELD_MHZ else {}
        for anchors in (WARM, _TWO):
            print(
                f"{kind}, {len(there.pairs)}, at {anchors}:",
                _regrets(model, num_trained, there, anchors),
            )
        physics = model.power.members[0] if isinstance(model.power, StackedModel) else None
        if isinstance(physics, PhysicsModel):
            _print_parts(physics, there, labels, held)


def _regrets(
    model: OperatingModel, num_trained: int, there: Runs, anchors: tuple[float, ...]
) -> str:
    queries = queries_of(there)
    anchored = queries.nearest(anchors)
    warm = model.adapt(there.select(anchored), profiled=there)
    power_w, time_s = warm.predict(queries, "power_w"), warm.predict(queries, "time_s")
    is_inside = _is_inside(warm, there) if num_trained > 1 / (1 - _LEVEL) else None
    found: dict[str, list[float]] = {}
    for _, rows in there.by_pair():
        asked = rows[~anchored[rows]]
        off = np.abs(power_w[asked] / there.power_w[asked] - 1.0).mean()
        late = np.abs(time_s[asked] / there.time_s[asked] - 1.0).mean()
        scores = {"power": off, "time": late}
        if is_inside is not None:
            scores["covered"] = is_inside[asked].mean()
        scores["regret"] = _regret(there.select(rows), power_w[rows], time_s[rows])
        scores["with power"] = _regret(there.select(rows), there.power_w[rows], time_s[rows])
        scores["with time"] = _regret(there.select(rows), power_w[rows], there.time_s[rows])
        for name, value in scores.items():
            found.setdefault(name, []).append(float(value))
    return ", ".join(f"{name} {np.mean(values):.1%}" for name, values in found.items())


def _is_inside(model: OperatingModel, there: Runs) -> Flags:
    lower, upper = model.predict_interval(queries_of(there), "power_w", _LEVEL)
    return (lower <= there.power_w) & (there.power_w <= upper)


def _regret(one: Runs, power_w: Array, time_s: Array) -> float:
    curve = Sweep(sm_clock_mhz=one.sm_clock_mhz, power_w=power_w, time_s=time_s)
    chosen_mhz = float(curve.sm_clock_mhz[curve.best("edp")])
    return smoothed_regret(measured_sweep(one), chosen_mhz, "edp")


def _print_parts(
    physics: PhysicsModel, there: Runs, labels: Sequence[str], held: Mapping[Pair, float]
) -> None:
    if held:
        asked = physics.holding(dict.fromkeys(held, np.inf))
        print(f"  as asked for: power {_error(asked, there):.1%}")
    aware = physics.holding(held)
    expected = expected_departure(there.spec(labels[0]), physics.moved, physics.boards)
    for share in _SHARES:
        aware.moved = {gpu: share * moved for gpu, moved in physics.moved.items()}
        print(f"  {share:g} of what others depart by: power {_error(aware, there):.1%}")
    aware.moved = physics.moved
    for label in labels:
        own = there.select(there.gpu == label)
        placed = copy.copy(physics)
        placed.place(queries_of(own).held_at(held), own.power_w, labels)
        learned = placed.moved[label]
        for name, places in _PARTS.items():
            moved = expected.copy()
            moved[list(places)] = learned[list(places)]
            one = copy.copy(aware)
            one.moved = {**physics.moved, label: moved}
            print(f"  {label}, its own {name}: power {_error(one, own):.1%}")


def _error(model: PhysicsModel, there: Runs) -> float:
    """Return the mean error of power over applications that were measured once."""
    queries = queries_of(there)
    anchored = queries.nearest(WARM)
    warm = model.adapt(there.select(anchored), profiled=there)
    off = np.abs(warm.predict(queries) / there.power_w - 1.0)
    return float(np.mean([off[rows[~anchored[rows]]].mean() for _, rows in there.by_pair()]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    main(parser.parse_args().data)
