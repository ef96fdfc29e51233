"""Programs that load no device here: waiting, and one of which only a recording exists."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.clock import Clock, MonotonicClock
from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.workloads.base import Workload, check_knobs, require_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSettings:
    """Leave the device alone.

    Attributes:
        duration_s: Seconds that one repeat waits.
    """

    duration_s: float = 1.0

    def __post_init__(self) -> None:
        check_knobs(self)


class Idle(Workload[IdleSettings]):
    """Waits on ``clock``, and creates no context on the device."""

    settings_type: ClassVar = IdleSettings
    unit: ClassVar = "second"
    uses_gpu: ClassVar = False
    phases = ("idle",)

    def __init__(self, settings: IdleSettings, clock: Clock | None = None) -> None:
        super().__init__(settings)
        self._clock = clock or MonotonicClock()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSettings:
    """Which program of the recording.

    Attributes:
        app: Its name there; empty for the only one.
    """

    app: str = ""


class Recorded(Workload[RecordedSettings]):
    """Runs of a program that somebody measured elsewhere, for devices that replay them."""

    settings_type: ClassVar = RecordedSettings
    unit: ClassVar = "run"
    phases = ("run",)

    @override
    def prepare(self) -> None:
        raise self._absent()

    @override
    def run(self, phase: str) -> float:
        raise self._absent()

    @override
    def close(self) -> None:
        """Do nothing: nothing was taken."""

    @override
    def cost(self) -> WorkloadCost:
        raise self._absent()

    def _absent(self) -> ConfigError:
        return ConfigError(
            f"recorded {self.settings.app!r} is a program of which only its power and time are "
            "known; it runs on --device replay --store RECORDING and nowhere else."
        )
