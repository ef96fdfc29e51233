"""Nothing at all, for a known time: the baseline."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.sampling.clock import Clock, MonotonicClock
from joulelab.workloads.base import Workload
from joulelab.workloads.knobs import require_choice, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSettings:
    """Leave the device alone.

    Attributes:
        duration_s: Seconds that one repeat waits.
    """

    duration_s: float = 1.0

    def __post_init__(self) -> None:
        require_positive("duration_s", self.duration_s)


class Idle(Workload[IdleSettings]):
    """Waits, and creates no context on the device.

    Args:
        settings: The knobs.
        clock: Where the time passes.
    """

    settings_type: ClassVar = IdleSettings
    unit: ClassVar = "second"

    def __init__(self, settings: IdleSettings, clock: Clock | None = None) -> None:
        super().__init__(settings)
        self._clock = clock or MonotonicClock()

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return ("idle",)

    @override
    def prepare(self) -> None:
        """Do nothing: waiting needs no preparation."""

    @override
    def run(self, phase: str) -> float:
        require_choice("phase", phase, self.phases)
        self._clock.sleep_s(self.settings.duration_s)
        return self.settings.duration_s

    @override
    def close(self) -> None:
        """Do nothing: nothing was taken."""

    @override
    def cost(self) -> WorkloadCost:
        duration_s = self.settings.duration_s
        phase = PhaseCost(phase="idle", work=duration_s, wait_s=duration_s)
        return WorkloadCost(unit=self.unit, phases=(phase,), resident_b=0.0)
