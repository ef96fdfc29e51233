"""How far to trust an estimate: errors that were found, and what is not known of the machine."""

from dataclasses import dataclass

from joulelab.hardware.processor import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """How far to trust an estimate.

    Attributes:
        tier: A calibrated on this device, B on its class, C datasheet alone, D projected.
        time_error: Held-out mean absolute relative error of time; ``None`` if never compared.
        energy_error: The same of energy.
        num_points: Measurements behind them.
        note: What a reader must know, e.g. that there is no silicon.
        on_unknown_host: Whether the host sets the time, and was not measured; no such answer is A.
    """

    tier: Tier
    time_error: float | None = None
    energy_error: float | None = None
    num_points: int = 0
    note: str = ""
    on_unknown_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRange:
    """What nine of ten programs take behind hosts from the fastest to the slowest known."""

    latency_s: tuple[float, float]
    energy_j: tuple[float, float]
