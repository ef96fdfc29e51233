"""Measurements as a table: one row each, columns in the vocabulary of the tracking stores."""

from collections.abc import Sequence

import pandas as pd

from joulelab.core.measurement import Measurement
from joulelab.tracking.vocabulary import metrics, params, tags


def measurements_frame(measurements: Sequence[Measurement]) -> pd.DataFrame:
    """List ``measurements``, valid and invalid, with one row each.

    Columns are what was requested (``sm_clock_mhz``, ``batch``, ...), what was measured
    (``energy_per_unit_j``, ``observed.sm_clock_mhz``, ...) and what identifies it
    (``device.uuid``, ``valid``, ``invalid_reasons``, ...). A number that an invalid measurement
    does not have, or that was not read, is missing and not 0.
    """
    rows = [
        {"study": m.study, **params(m), **metrics(m), **tags(m), **_typed(m)} for m in measurements
    ]
    return pd.DataFrame(rows)


def _typed(measurement: Measurement) -> dict[str, object]:
    """Return the tags that are no text with the type that they have."""
    return {
        "attempt": measurement.attempt,
        "repeat": measurement.repeat,
        "sentinel": measurement.sentinel,
        "valid": measurement.valid,
        "provenance.started_at": pd.Timestamp(measurement.provenance.started_at),
    }
