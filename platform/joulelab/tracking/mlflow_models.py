"""Power models in MLflow: registered with all that is needed to trust them, read back safely."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from joulelab.power_models.artifacts import load_operating_model
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Queries
from joulelab.power_models.scores import ErrorScores, IntervalScores, RegretScores
from joulelab.power_models.serving import (
    NUMBER_COLUMNS,
    OPTIONAL_COLUMNS,
    PARAMS,
    QUANTITIES,
    TEXT_COLUMNS,
    ServedModel,
    frame_of_queries,
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
    note: str = "",
) -> RegisteredModel:
    """Write a fitted model to an MLflow store as the next version of ``name``.

    The run holds the model with signature and input example, the training domain
    (``training_domain.json``), the metrics of each split, and as tags the members, the data's hash
    and the GPUs. It is asked about ``example`` before it is written.

    Args:
        uri: Tracking URI, absolute if it is SQLite.
        name: Name in the registry.
        model: Fitted models of power and time, with intervals.
        example: A few queries, kept as the input example.
        level: Of the intervals that it answers with unless asked for another.
        validated: Scores from :func:`joulelab.power_models.validation.validate`.
        note: Shown on top of the run and the version.

    Raises:
        ConfigError: If the model is not fitted or has no intervals of ``level``, or ``name`` is
            empty.
        TrackingError: If the store cannot be written.
    """
    frame = frame_of_queries(example)
    ServedModel(model).predict(frame, {"level": level})
    domains = {"power_w": asdict(model.power.domain), "time_s": asdict(model.time.domain)}
    made = Pyfunc(
        loader=_LOADER,
        files=_FILES,
        save=model.save,
        signature=_signature({**PARAMS, "level": level}),
        example=frame,
        tags=_tags(model),
        domain=json.dumps(domains, indent=1),
    )
    return registered(uri, name, made, metrics=split_metrics(validated), note=note)


def load_registered(uri: str, name: str, version: int | None = None) -> OperatingModel:
    """Read a registered model without running anything that the store holds.

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
        return load_operating_model(folder)


def split_metrics(validated: Sequence[Validated]) -> dict[str, float]:
    """Return every score by name: ``application.cold.power_w.mean``, ``....power_w.coverage``."""
    found: dict[str, float] = {}
    for each in validated:
        anchored = "cold" if not each.anchors else f"anchors{len(each.anchors)}"
        prefix = f"{each.kind}.{anchored}"
        scores: list[tuple[str, ErrorScores | IntervalScores | RegretScores]] = []
        scores += [*each.errors.items(), *each.intervals.items()]
        scores += [(f"regret.{goal}", score) for goal, score in each.regrets.items()]
        for who, goals in each.baselines.items():
            label = re.sub(r"\W+", "_", who)
            scores += [(f"baseline.{label}.regret.{goal}", score) for goal, score in goals.items()]
        for what, score in scores:
            numbers = {k: v for k, v in asdict(score).items() if isinstance(v, float | int)}
            found.update({f"{prefix}.{what}.{k}": float(v) for k, v in numbers.items()})
    return found


def _tags(model: OperatingModel) -> dict[str, str]:
    return {
        "joulelab.power_member": model.power.name,
        "joulelab.time_member": model.time.name,
        "joulelab.data_hash": model.power.data_hash,
        "joulelab.gpus": ", ".join(model.power.domain.gpus),
    }


def _signature(params: Mapping[str, float | str]) -> Any:
    ends = [(name, f"{name}_lower", f"{name}_upper") for name in QUANTITIES]
    return signature_of(
        texts=TEXT_COLUMNS,
        numbers=NUMBER_COLUMNS,
        optional=OPTIONAL_COLUMNS,
        answers=[name for names in ends for name in names],
        params=params,
    )
