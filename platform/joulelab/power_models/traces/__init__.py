"""Trace models: what power does over time while phases of work come and go.

    model = TRACE_MODELS["state_machine_ar1"]().fit(traces)    # load_trace.py
    model.predict(schedule)                                    # W in each step, shape (n,)
    model.predict_energy(schedule, level=0.9)                  # J, with its interval
    model.sample(schedule, seed=1)                             # one possible trace, scatter and all
    model.save(folder); load_trace_model(folder)               # JSON and npz; no pickle

A schedule says for each step of equal length which phase ran and how busy the units were. The
model knows a power level for each phase, which follows the activities.
``model.leave_one_trace_out`` holds out whole recordings.
"""

from pathlib import Path

from joulelab.power_models.state import read_state
from joulelab.power_models.traces.model import TraceModel
from joulelab.registry import Registry

BASELINE = "state_machine_ar1"
TRACE_MODELS: Registry[type[TraceModel]] = Registry(
    "trace model",
    {BASELINE: "joulelab.power_models.traces.model:TraceModel"},
    removed=dict.fromkeys(
        ("neural_ode", "transformer"),
        f"it lost to {BASELINE!r}; train that",
    ),
)


def load_trace_model(folder: Path) -> TraceModel:
    """Read the model that ``TraceModel.save`` wrote into ``folder``; no code in it is run.

    Raises UnknownNameError if it is of a kind that is not registered; ConfigError if the folder
    does not hold a model.
    """
    return TRACE_MODELS[str(read_state(folder).values.get("name"))].load(folder)
