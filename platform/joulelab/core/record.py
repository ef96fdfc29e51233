"""A measurement together with the raw power that it came from."""

from dataclasses import dataclass

from joulelab.core.measurement import Measurement
from joulelab.core.trace import PowerTrace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """What the measuring procedure hands on.

    Attributes:
        measurement: The result.
        trace: Power samples of the measured windows; ``None`` where there were none.
    """

    measurement: Measurement
    trace: PowerTrace | None
