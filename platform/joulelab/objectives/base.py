"""The contract of an objective."""

from collections.abc import Callable

from joulelab.core.measurement import Measurement

Objective = Callable[[Measurement], float]
"""Cost of a valid measurement; lower is better. An invalid one raises MeasurementError."""
