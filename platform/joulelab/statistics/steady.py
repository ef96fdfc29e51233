"""From when on a trace was steady, found afterwards.

While a load warms up, :mod:`joulelab.sampling.warmup` decides; this looks at a trace that was kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.core.steadiness import power_is_steady, temperature_is_steady
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, MeasurementError
from joulelab.statistics.samples import Array

_BATCH = 5
_FEWEST_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyPart:
    """The steady part of a trace.

    Attributes:
        start_s: When it begins, on the clock of the trace.
        stop_s: When it ends: with the trace.
        dropped_share: Share of the samples before it.
    """

    start_s: float
    stop_s: float
    dropped_share: float


def steady_part(
    trace: PowerTrace,
    temperature_at_s: Sequence[float] = (),
    temperature_c: Sequence[float] = (),
) -> SteadyPart:
    """Return the part of ``trace`` that the warm-up does not bias.

    The beginning is cut by MSER-5; what is left must pass the criteria of the warm-up.

    Args:
        trace: Power, sampled evenly.
        temperature_at_s: When temperatures were read, on the clock of the trace.
        temperature_c: Those temperatures; none if temperature is not to be judged.

    Raises:
        ConfigError: If there are fewer than 20 samples, or times and temperatures differ in number.
        MeasurementError: If the trace never became steady; says what was not.
    """
    if len(temperature_at_s) != len(temperature_c):
        raise ConfigError(
            "Every temperature must have its time, got "
            f"{len(temperature_at_s)} times and {len(temperature_c)} temperatures."
        )
    first = mser5(trace.power_w)
    start_s, stop_s = float(trace.t_s[first]), float(trace.t_s[-1])
    if not power_is_steady(trace, start_s, stop_s):
        raise MeasurementError(
            f"Power must be steady in the end, but still changes from {start_s:.1f} s to "
            f"{stop_s:.1f} s; let the load run longer before it is measured."
        )
    kept = [i for i, at_s in enumerate(temperature_at_s) if at_s >= start_s]
    at_s, celsius = [temperature_at_s[i] for i in kept], [temperature_c[i] for i in kept]
    if len(temperature_c) and not temperature_is_steady(at_s, celsius):
        raise MeasurementError(
            f"Temperature must be steady in the end, but moves after {start_s:.1f} s or has fewer "
            "than three readings there; let the load run longer before it is measured."
        )
    return SteadyPart(start_s=start_s, stop_s=stop_s, dropped_share=first / len(trace))


def mser5(values: Sequence[float] | Array) -> int:
    """Return how many values to cut from the front, by the marginal standard error rule.

    Of means of five values each, as many are cut as make the standard error of the mean of the
    rest smallest (White, Cobb and Spratt, Winter Simulation Conference 2000). Only the first half
    is searched, because a few means at the end may be alike by chance.

    Raises:
        ConfigError: For fewer than 20 values.
        MeasurementError: If half would be cut: the series has not become steady.
    """
    numbers = np.asarray(values, dtype=np.float64)
    num_batches = len(numbers) // _BATCH
    if num_batches < _FEWEST_BATCHES:
        raise ConfigError(
            f"At least {_BATCH * _FEWEST_BATCHES} values are required, got {len(numbers)}."
        )
    batches = numbers[len(numbers) - num_batches * _BATCH :].reshape(-1, _BATCH).mean(axis=1)
    left = batches[::-1] - batches.mean()
    count = np.arange(1, num_batches + 1)
    spread = np.cumsum(left**2) - np.cumsum(left) ** 2 / count
    half = num_batches // 2
    error = (spread / count**2)[::-1][: half + 1]
    cut = int(np.argmin(np.maximum(error, 0.0)))
    if cut == half:
        raise MeasurementError(
            f"A series must become steady within its first half, got one of {len(numbers)} values "
            "that still settles there; measure longer."
        )
    return cut * _BATCH + (len(numbers) - num_batches * _BATCH if cut else 0)
