"""Models of power traces in MLflow: registered as the others are, and read back as safely."""

import json

from joulelab.power_models.traces import load_trace_model
from joulelab.power_models.traces.base import TraceModel
from joulelab.power_models.traces.load_trace import Schedule
from joulelab.power_models.traces.serving import (
    ANSWERED,
    PARAMS,
    PHASE,
    ServedTraceModel,
    frame_of_schedule,
)
from joulelab.power_models.traces.validation import TraceScores
from joulelab.tracking.mlflow_registry import (
    Pyfunc,
    RegisteredModel,
    fetched,
    registered,
    signature_of,
)

_LOADER = "joulelab.power_models.traces.serving"
_FILES = "trace_model"


def register_trace_model(
    uri: str,
    name: str,
    model: TraceModel,
    example: Schedule,
    *,
    level: float = 0.9,
    scores: TraceScores | None = None,
    note: str = "",
) -> RegisteredModel:
    """Write a fitted trace model to an MLflow store as the next version of ``name``.

    The run holds the model with signature and input example, the training domain
    (``training_domain.json``), the scores on held-out recordings, and as tags the member and the
    data's hash. It is asked about ``example`` before it is written.

    Args:
        uri: Tracking URI, absolute if it is SQLite.
        name: Name in the registry.
        model: A fitted model, with intervals.
        example: Kept as the input example.
        level: Of the interval that it answers with unless asked for another.
        scores: From :func:`joulelab.power_models.traces.validation.leave_one_trace_out`.
        note: Shown on top of the run and the version.

    Raises:
        ConfigError: If the model is not fitted or has no interval of ``level``, or ``name`` is
            empty.
        TrackingError: If the store cannot be written.
    """
    frame = frame_of_schedule(example)
    ServedTraceModel(model).predict(frame, {"level": level})
    known = model.encoding
    domain = {"step_s": known.step_s, "phases": known.phases, "ranges": dict(known.ranges)}
    made = Pyfunc(
        loader=_LOADER,
        files=_FILES,
        save=model.save,
        signature=signature_of(
            texts=(PHASE,),
            numbers=tuple(known.ranges),
            answers=ANSWERED,
            params={**PARAMS, "level": level},
        ),
        example=frame,
        tags={"joulelab.trace_member": model.name, "joulelab.data_hash": model.data_hash},
        domain=json.dumps(domain, indent=1),
    )
    metrics = {} if scores is None else trace_metrics(scores)
    return registered(uri, name, made, metrics=metrics, note=note)


def load_registered_trace_model(uri: str, name: str, version: int | None = None) -> TraceModel:
    """Read a registered trace model without running anything that the store holds.

    Args:
        uri: Tracking URI.
        name: Name in the registry.
        version: Its version; ``None`` takes the newest.

    Raises:
        TrackingError: If there is no such version, the store cannot be read, or what is
            registered wants to be loaded by foreign code.
        ConfigError: If its files hold no model.
    """
    with fetched(uri, name, version, loader=_LOADER, files=_FILES) as folder:
        return load_trace_model(folder)


def trace_metrics(scores: TraceScores) -> dict[str, float]:
    """Return the scores on held-out recordings by name: ``recording.energy_j.median``, ...."""
    return {
        "recording.energy_j.median": scores.median,
        "recording.energy_j.mean": scores.mean,
        "recording.energy_j.worst": scores.worst[1],
        "recording.energy_j.num_recordings": float(len(scores.energy_error)),
        "recording.power_w.median": scores.power_mape,
    }
