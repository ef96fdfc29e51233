"""``joulelab models sweep``: every clock of a GPU for one profile, and which one to choose."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import tyro

from joulelab.cli.power_models.asked import as_rows, intervals, predictions, show
from joulelab.cli.power_models.evaluate import MOST_LEVEL
from joulelab.core.bounds import MOST_MHZ, MOST_S, check_positive, check_range
from joulelab.hardware import GPUS
from joulelab.power_models.artifacts import load_operating_model
from joulelab.power_models.decision import Goal
from joulelab.power_models.decision import Sweep as Decided
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Profile, sweep
from joulelab.power_models.runs import Array

_NAMES = {"energy_j": "energy", "edp_js": "EDP", "ed2p_js2": "ED2P"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Predict a profile at every clock of its GPU and mark the best of energy, EDP and ED2P.

    Attributes:
        model: Folder that `joulelab models train` wrote.
        board: GPU, by its key in the catalogue.
        fp_active: FP64 activity plus half of FP32's at the default clock, 0 to 1.
        dram_active: Memory activity there; by default unread, as the others.
        sm_active: SM activity there.
        tensor_active: Tensor activity there.
        gr_engine_active: Graphics engine activity there.
        time_s: How long the work took there.
        gpu: Label under which the model knows the board; by default the key.
        sm_clock_mhz: Clocks; by default all of the GPU.
        level: Of the intervals; 0 asks for none.
        json: Print one JSON object instead of text.
    """

    model: tyro.conf.Positional[Path]
    board: str
    fp_active: float | None = None
    dram_active: float | None = None
    sm_active: float | None = None
    tensor_active: float | None = None
    gr_engine_active: float | None = None
    time_s: float = 1.0
    gpu: str | None = None
    sm_clock_mhz: tuple[float, ...] = ()
    level: float = 0.0
    json: bool = False

    def run(self) -> int:
        """Predict and print.

        Returns:
            0.

        Raises:
            ConfigError: If the folder holds no model, or an activity is no share.
            UnknownNameError: If there is no such GPU.
        """
        check_range("--level", self.level, 0, MOST_LEVEL)
        for clock_mhz in self.sm_clock_mhz:
            check_positive("--sm-clock-mhz", clock_mhz, MOST_MHZ)
        check_positive("--time-s", self.time_s, MOST_S)
        model = load_operating_model(self.model)
        queries = sweep(self._profile(model), self.sm_clock_mhz or None)
        columns = predictions(model, queries)
        ends = intervals(model, queries, self.level) if self.level else {}
        best = _best(columns)
        if self.json:
            chosen = {goal: float(columns["sm_clock_mhz"][row]) for goal, row in best.items()}
            outside = list(model.power.domain.findings(queries))
            rows = as_rows(columns, ends)
            told = {"predictions": rows, "best_clock_mhz": chosen, "outside": outside}
            print(json.dumps(told, indent=2))
            return 0
        marks = [
            ", ".join(_NAMES[g] for g, at in best.items() if at == row)
            for row in range(len(queries))
        ]
        show(f"{self.board}: best clocks are marked", columns, ends, marks)
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
        )


def _best(columns: dict[str, Array]) -> dict[Goal, int]:
    decided = Decided(
        sm_clock_mhz=columns["sm_clock_mhz"], power_w=columns["power_w"], time_s=columns["time_s"]
    )
    return {goal: decided.best(goal) for goal in get_args(Goal)}
