"""Models of power and of traces in MLflow: registered with all that is needed to trust them."""

import re
from collections.abc import Sequence
from dataclasses import asdict

from joulelab.power_models.decision import ErrorScores, IntervalScores, RegretScores
from joulelab.power_models.operating_model import OperatingModel, load_operating_model
from joulelab.power_models.queries import Queries
from joulelab.power_models.serving import (
    NUMBER_COLUMNS,
    OPTIONAL_COLUMNS,
    PARAMS,
    QUANTITIES,
    TEXT_COLUMNS,
    ServedModel,
    frame_of_queries,
)
from joulelab.power_models.traces import load_trace_model
from joulelab.power_models.traces.load_trace import Schedule
from joulelab.power_models.traces.model import TraceModel, TraceScores
from joulelab.power_models.traces.serving import (
    ANSWERED,
    PHASE,
    ServedTraceModel,
    frame_of_schedule,
)
from joulelab.power_models.validation import Validated
from joulelab.tracking.mlflow_registry import (
    Pyfunc,
    RegisteredModel,
    fetched,
    registered,
    signature_of,
)

_LOADER = "joulelab.power_models.serving"
_FILES = "operating_model"


def register_model(
    uri: str,
    name: str,
    model: OperatingModel,
    example: Queries,
    *,
    level: float = 0.9,
    validated: Sequence[Validated] = (),
) -> RegisteredModel:
    """Write a fitted model to an MLflow store as the next version of ``name``.

    The run holds the model with signature and input example, the training domain
    (``training_domain.json``), the metrics of each split, and as tags the members, the data's hash
    and the GPUs. It is asked about ``example``, which is kept, before it is written, and answers
    with intervals of ``level`` unless asked for another. Raises ConfigError if the model is not
    fitted or has no such intervals, or ``name`` is empty; TrackingError if the store cannot be
    written.
    """
    frame = frame_of_queries(example)
    ServedModel(model).predict(frame, {"level": level})
    answers = [name + end for name in QUANTITIES for end in ("", "_lower", "_upper")]
    made = Pyfunc(
        loader=_LOADER,
        files=_FILES,
        save=model.save,
        signature=signature_of(
            texts=TEXT_COLUMNS,
            numbers=NUMBER_COLUMNS,
            optional=OPTIONAL_COLUMNS,
            answers=answers,
            params={**PARAMS, "level": level},
        ),
        example=frame,
        tags={
            "joulelab.power_member": model.power.name,
            "joulelab.time_member": model.time.name,
            "joulelab.data_hash": model.power.data_hash,
            "joulelab.gpus": ", ".join(model.power.domain.gpus),
        },
        domain={"power_w": asdict(model.power.domain), "time_s": asdict(model.time.domain)},
        metrics=split_metrics(validated),
    )
    return registered(uri, name, made)


def load_registered(uri: str, name: str, version: int | None = None) -> OperatingModel:
    """Read a registered model, by default the newest, without running what the store holds.

    Raises TrackingError if there is no such version, the store cannot be read, or what is
    registered wants to be loaded by foreign code; ConfigError if its files hold no model.
    """
    with fetched(uri, name, version, loader=_LOADER, files=_FILES) as folder:
        return load_operating_model(folder)


def split_metrics(validated: Sequence[Validated]) -> dict[str, float]:
    """Return every score by name: ``application.cold.power_w.mean``, ``....power_w.coverage``."""
    found: dict[str, float] = {}
    for each in validated:
        anchored = "cold" if not each.anchors else f"anchors{len(each.anchors)}"
        scores: list[tuple[str, ErrorScores | IntervalScores | RegretScores]] = [
            *each.errors.items(),
            *each.intervals.items(),
            *((f"regret.{name}", score) for name, score in each.regrets.items()),
            *(
                ("baseline." + re.sub(r"\W+", "_", who) + f".regret.{name}", score)
                for who, by_name in each.baselines.items()
                for name, score in by_name.items()
            ),
        ]
        for what, score in scores:
            numbers = {k: v for k, v in asdict(score).items() if isinstance(v, float | int)}
            found.update(
                {f"{each.kind}.{anchored}.{what}.{k}": float(v) for k, v in numbers.items()}
            )
    return found


_TRACE_LOADER = "joulelab.power_models.traces.serving"
_TRACE_FILES = "trace_model"


def register_trace_model(
    uri: str,
    name: str,
    model: TraceModel,
    example: Schedule,
    *,
    level: float = 0.9,
    scores: TraceScores | None = None,
) -> RegisteredModel:
    """Write a fitted trace model likewise, with its scores on held-out recordings.

    Raises ConfigError if the model is not fitted or has no interval, or ``name`` is empty;
    TrackingError if the store cannot be written.
    """
    frame = frame_of_schedule(example)
    ServedTraceModel(model).predict(frame, {"level": level})
    known = model.encoding
    made = Pyfunc(
        loader=_TRACE_LOADER,
        files=_TRACE_FILES,
        save=model.save,
        signature=signature_of(
            texts=(PHASE,),
            numbers=tuple(known.ranges),
            answers=ANSWERED,
            params={**PARAMS, "level": level},
        ),
        example=frame,
        tags={"joulelab.trace_member": model.name, "joulelab.data_hash": model.data_hash},
        domain=asdict(known),
        metrics={} if scores is None else trace_metrics(scores),
    )
    return registered(uri, name, made)


def load_registered_trace_model(uri: str, name: str, version: int | None = None) -> TraceModel:
    """Read a registered trace model as safely as :func:`load_registered` does."""
    with fetched(uri, name, version, loader=_TRACE_LOADER, files=_TRACE_FILES) as folder:
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
