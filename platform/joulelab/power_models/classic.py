"""The calls that studies of DVFS with predicted power have always made, on this family.

Tables have the columns of those studies: ``sm_app_clock`` in MHz, and predicted power, run time and
energy in W, s and J.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.decision import Sweep
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Profile, sweep
from joulelab.power_models.readers import read_csv
from joulelab.power_models.runs import Array
from joulelab.power_models.validation import COLD, WARM, Validated, validate

CLOCK, POWER = "sm_app_clock", "predicted_n_to_r_power_usage"
TIME, ENERGY = "predicted_n_to_r_run_time", "predicted_n_to_r_energy"
"""Columns of a predicted sweep, in MHz, W, s and J."""
_ENERGY_FACTOR = 3.0
"""How far a column of energy may be from power times time before it must be another unit."""
_OTHER_NAMES = {
    POWER: ("predicted_power", "power_usage", "power_w"),
    TIME: ("predicted_run_time", "run_time", "time_s"),
    ENERGY: ("predicted_energy", "energy", "energy_j"),
}


def train_on_file(
    path: Path, *, gpu: str | None = None, member: str = "physics", seed: int = 0
) -> OperatingModel:
    """Fit power and time to a CSV file of runs, see :func:`joulelab.power_models.readers.read_csv`.

    Raises:
        ConfigError: If the file cannot be learned from; names column and line.
    """
    model = POWER_MODELS[member]
    pair = OperatingModel(power=model("power_w", seed=seed), time=model("time_s", seed=seed))
    return pair.fit(read_csv(path, gpu=gpu))


def predict_power_sweep(
    model: OperatingModel,
    *,
    board: str,
    activity: Mapping[str, float],
    clocks_mhz: Sequence[float] | None = None,
    run_time_s: float = 1.0,
    application: str = "application",
) -> pd.DataFrame:
    """Predict power, time and energy at each clock from the activities at the default clock.

    Args:
        model: From :func:`train_on_file`.
        board: GPU, by its key in the catalogue.
        activity: ``fp_active``, ``dram_active`` and others, 0 to 1.
        clocks_mhz: Clocks; ``None`` takes all of the GPU.
        run_time_s: Run time at the default clock.
        application: Its name.

    Returns:
        One row per clock.

    Raises:
        ConfigError: If an activity is no share, or a clock not of the GPU.
    """
    profile = Profile(
        application=application,
        gpu=board,
        board=board,
        clock_mhz=float(GPUS[board].default_clock_mhz),
        activity=activity,
        time_s=run_time_s,
    )
    queries = sweep(profile, clocks_mhz)
    return pd.DataFrame(
        {
            CLOCK: queries.sm_clock_mhz,
            POWER: model.predict(queries, "power_w"),
            TIME: model.predict(queries, "time_s"),
            ENERGY: model.predict(queries, "energy_j"),
        }
    )


def analyze_dvfs_optimization(frame: pd.DataFrame, application: str) -> dict[str, Any]:
    """Find the clocks with the least EDP, ED2P, energy and time, and what each saves.

    Rows without a positive power, time and energy are left out; the reference is the highest clock
    that is left. Energy is power times time where there is no such column.

    Args:
        frame: A sweep, as :func:`predict_power_sweep` returns or as was measured.
        application: Its name.

    Returns:
        ``application`` and, under ``edp_optimal``, ``ed2p_optimal``, ``min_energy`` and
        ``min_time``, ``frequency`` (MHz), ``time`` (s), ``power`` (W), ``energy`` (J) and the
        improvements over the reference in percent; a loss is negative.

    Raises:
        ConfigError: If a column is missing, or energy is in another unit.
        MeasurementError: If no row is usable.
    """
    power_w, time_s = _column(frame, POWER), _column(frame, TIME)
    energy_j = _energy(frame, power_w * time_s)
    mean_w = np.divide(energy_j, time_s, out=np.full_like(energy_j, np.nan), where=time_s > 0)
    usable = (power_w > 0) & (energy_j > 0)
    found = Sweep(
        sm_clock_mhz=_column(frame, CLOCK),
        power_w=np.where(usable, mean_w, np.nan),
        time_s=time_s,
    )
    fastest = int(np.argmin(np.where(found.usable, found.time_s, np.inf)))
    chosen = {
        "edp_optimal": found.best("edp_js"),
        "ed2p_optimal": found.best("ed2p_js2"),
        "min_energy": found.best("energy_j"),
        "min_time": fastest,
    }
    top = int(np.argmax(np.where(found.usable, found.sm_clock_mhz, -np.inf)))
    told = {name: _told(found, power_w[row], energy_j, row, top) for name, row in chosen.items()}
    return {"application": application, **told}


def cross_validate(
    path: Path, *, gpu: str | None = None, members: Sequence[str] = ("mean", "physics")
) -> dict[str, list[Validated]]:
    """Score members with each application held out, without and with one measured point.

    Raises:
        ConfigError: If a member cannot learn from the file.
    """
    runs = read_csv(path, gpu=gpu)
    return {
        name: validate(
            lambda name=name: OperatingModel(  # type: ignore[misc]
                power=POWER_MODELS[name]("power_w", calibration_folds=0),
                time=POWER_MODELS[name]("time_s", calibration_folds=0),
            ),
            runs,
            anchors=[COLD, WARM],
            level=None,
        )
        for name in members
    }


def _column(frame: pd.DataFrame, name: str) -> Array:
    for known in (name, *_OTHER_NAMES.get(name, ())):
        if known in frame.columns:
            return np.asarray(frame[known], dtype=float)
    raise ConfigError(
        f"Column {name!r} is required, got columns {sorted(map(str, frame.columns))}."
    )


def _energy(frame: pd.DataFrame, expected_j: Array) -> Array:
    if not {ENERGY, *_OTHER_NAMES[ENERGY]} & set(frame.columns):
        return expected_j
    energy_j = _column(frame, ENERGY)
    known = (energy_j > 0) & (expected_j > 0)
    ratio = np.divide(energy_j, expected_j, out=np.ones_like(energy_j), where=known)
    off = np.flatnonzero((ratio < 1 / _ENERGY_FACTOR) | (ratio > _ENERGY_FACTOR))
    if len(off):
        raise ConfigError(
            f"Column {ENERGY!r} must hold joules, row {off[0]} has {energy_j[off[0]]:g} where "
            f"power times time is {expected_j[off[0]]:g}; is it a logarithm, or in mJ or kJ?"
        )
    return energy_j


def _told(found: Sweep, power_w: float, energy_j: Array, row: int, top: int) -> dict[str, float]:
    return {
        "frequency": float(found.sm_clock_mhz[row]),
        "time": float(found.time_s[row]),
        "power": float(power_w),
        "energy": float(energy_j[row]),
        "energy_improvement": 100.0 * (1.0 - float(energy_j[row] / energy_j[top])),
        "time_improvement": 100.0 * (1.0 - float(found.time_s[row] / found.time_s[top])),
    }
