"""A fitted trace model behind a table: what a model server asks and gets, MLflow's among them.

MLflow loads it by the name of this module (``loader_module``), from JSON and npz: nothing is
unpickled and no code comes with the model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from joulelab.errors import ConfigError
from joulelab.power_models.columns import SHARE, Cells, Column
from joulelab.power_models.serving import PARAMS, checked
from joulelab.power_models.traces import load_trace_model
from joulelab.power_models.traces.load_trace import Schedule
from joulelab.power_models.traces.model import TraceModel

PHASE = "phase"
ANSWERED = ("power_w", "energy_j", "energy_j_lower", "energy_j_upper")
"""Power of each step; energy of all of them with its interval, the same in every row."""


class ServedTraceModel:
    """Answers tables of steps with tables of power of a fitted model."""

    def __init__(self, model: TraceModel) -> None:
        self.model = model

    def predict(
        self, model_input: pd.DataFrame, params: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Predict the power of each step, and the energy of all with its interval.

        Args:
            model_input: One step per row, as long as in training: its phase and inputs.
            params: Changes to :data:`~joulelab.power_models.serving.PARAMS`.

        Returns:
            The columns :data:`ANSWERED`, and in ``outside`` what of the schedule is unlike those
            trained on, for which the interval was widened; empty if nothing.

        Raises:
            ConfigError: If a column is missing or wrong, or ``outside`` is ``"refuse"`` and the
                schedule is outside.
        """
        level, outside = checked({**PARAMS, **(params or {})})
        schedule = self._schedule(model_input)
        findings = self.model.encoding.findings(schedule)
        if findings and outside == "refuse":
            raise ConfigError(
                f"Schedules must be like those trained on: {findings[0]} "
                'Ask with outside="widen" for a wider interval.'
            )
        energy = self.model.predict_energy(schedule, level)
        columns = {
            "power_w": self.model.predict(schedule),
            "energy_j": energy.energy_j,
            "energy_j_lower": energy.lower_j,
            "energy_j_upper": energy.upper_j,
            "outside": " ".join(findings),
        }
        return pd.DataFrame(columns, index=model_input.index)

    def _schedule(self, frame: pd.DataFrame) -> Schedule:
        if not len(frame):
            raise ConfigError("At least one step is required, got an empty table.")
        rows: Any = frame.to_dict(orient="records")
        cells = Cells(rows=rows)
        shares = [Column(name=name, limits=SHARE) for name in self.model.encoding.ranges]
        inputs = {share.name: cells.required_numbers(share) for share in shares}
        phase = np.array(cells.texts((PHASE,)), dtype=np.str_)
        return Schedule(step_s=self.model.encoding.step_s, phase=phase, inputs=inputs)


def frame_of_schedule(schedule: Schedule) -> pd.DataFrame:
    """Write a schedule as the table that a served model reads."""
    return pd.DataFrame({PHASE: schedule.phase.tolist(), **schedule.inputs})


def _load_pyfunc(path: str) -> ServedTraceModel:
    """Load what MLflow keeps below ``data``: the entry point that it asks of a loader module."""
    return ServedTraceModel(load_trace_model(Path(path)))
