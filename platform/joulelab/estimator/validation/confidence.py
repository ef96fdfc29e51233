"""How far to trust estimates for a processor: its tier, and errors on runs held out of any fit."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from joulelab.estimator.estimate import Confidence
from joulelab.hardware.processor import Processor

DATA_NAME = "held_out_errors.toml"
"""The file beside this module; ``benchmarks/estimator.py --write`` makes it."""

_NO_SILICON = "projected from a design: there is no silicon"


def confidence_of(processor: Processor) -> Confidence:
    """Return the confidence in estimates for ``processor``.

    Errors are those of the latest comparison with measurements; a processor that was never
    compared has none.
    """
    found = _errors().get(processor.key, {})
    silicon = _NO_SILICON if processor.tier == "D" else ""
    return Confidence(
        tier=processor.tier,
        time_error=found.get("time_error"),
        energy_error=found.get("energy_error"),
        num_points=found.get("num_points", 0),
        note=found.get("note", silicon),
    )


@cache
def _errors() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files(__package__).joinpath(DATA_NAME).read_text(encoding="utf-8"))
