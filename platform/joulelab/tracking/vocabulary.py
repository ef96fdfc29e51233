"""One vocabulary for every place that lists a measurement's values by name.

A name is the path of the field in the dataclass (and so in the JSON), unit suffix included:
``energy_per_unit_j``, ``observed.sm_clock_mhz``, ``device.uuid``. What was requested comes without
a prefix, as in ``sm_clock_mhz`` and the workload's own knobs.
"""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.quality import Quality

DERIVED = (
    "energy_per_unit_j",
    "energy_per_unit_u_j",
    "time_per_unit_s",
    "time_per_unit_u_s",
    "power_w",
    "idle_power_w",
    "dynamic_energy_per_unit_j",
    "edp_js",
    "ed2p_js2",
    "work",
)
"""Numbers that only a valid measurement has."""


def params(measurement: Measurement) -> dict[str, KnobValue]:
    """List what was requested; ``None`` leaves a knob to the driver."""
    configuration = measurement.configuration
    point = configuration.point
    return {
        "workload": configuration.workload,
        "phase": measurement.phase,
        **dict(configuration.knobs),
        **{field.name: getattr(point, field.name) for field in fields(point)},
        "config_hash": configuration.config_hash,
    }


def metrics(measurement: Measurement) -> dict[str, float]:
    """List the numbers that were measured; what was not read is absent, never 0.

    An invalid measurement has what was observed, and what its outputs are worth, and nothing that
    derives from its windows.
    """
    observed = {**_numbers(measurement.observed, "observed."), **_quality(measurement.quality)}
    if not measurement.valid:
        return observed
    derived = {name: getattr(measurement, name) for name in DERIVED}
    return {
        **{name: float(value) for name, value in derived.items() if value is not None},
        "num_windows": float(len(measurement.windows)),
        **{f"figures.{name}": value for name, value in measurement.figures},
        **_boards(measurement),
        **observed,
    }


def tags(measurement: Measurement) -> dict[str, str]:
    """List what identifies the measurement, where it ran, and whether to believe it."""
    return {
        "joulelab.measurement_id": measurement.measurement_id,
        "trial": measurement.trial,
        "attempt": str(measurement.attempt),
        "repeat": str(measurement.repeat),
        "sentinel": _word(measurement.sentinel),
        "pace": measurement.pace,
        "valid": _word(measurement.valid),
        "invalid_reasons": " ".join(finding.reason for finding in measurement.findings),
        "unit": measurement.unit,
        "source": measurement.windows[0].source if measurement.windows else "",
        **_texts(measurement.device, "device."),
        **{f"gpu{i}.uuid": board.device.uuid for i, board in enumerate(measurement.boards)},
        **_texts(measurement.provenance, "provenance."),
    }


def _boards(measurement: Measurement) -> dict[str, float]:
    """List what each of several boards used of a unit of work; the sum is that of all."""
    found = {
        f"gpu{i}.energy_per_unit_j": board.known_energy_j
        for i, board in enumerate(measurement.boards)
    }
    return {name: value / measurement.work for name, value in found.items() if value is not None}


def _quality(scored: Iterable[Quality]) -> dict[str, float]:
    values = {
        f"quality.{quality.metric}.{name}": getattr(quality, name)
        for quality in scored
        for name in ("score", "score_u", "retention", "retention_low", "retention_high")
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def _numbers(value: Any, prefix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if isinstance(item, (bool, int, float)):
            found[prefix + field.name] = float(item)
        elif item is not None:
            found.update(_numbers(item, f"{prefix}{field.name}."))
    return found


def _texts(value: Any, prefix: str) -> dict[str, str]:
    items = {prefix + field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _word(item) for name, item in items.items() if item is not None}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


VIEW = "joulelab"
"""Key of the view in addresses: ``viewStateShareKey=joulelab``."""
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_PARAMS = ("sm_clock_mhz", "power_limit_w", "batch", "precision")
_METRICS = (
    *("energy_per_unit_j", "time_per_unit_s", "power_w", "edp_js"),
    *("cost_ratio", "energy_ratio", "time_ratio"),
)


def opening_tags() -> dict[str, str]:
    """Return the tags of an experiment that has MLflow open it so; columns no run fills are empty.

    Without its kind, MLflow takes it for one of language models and shows an empty overview.
    """
    columns = [
        *(f"metrics.`{name}`" for name in _METRICS),
        *(f"params.`{name}`" for name in _PARAMS),
    ]
    view = json.dumps({"selectedColumns": columns})
    return {"mlflow.experimentKind": "custom_model_development", VIEW_TAG: view}
