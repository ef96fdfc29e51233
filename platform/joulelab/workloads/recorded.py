"""A program of which only a recording exists."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.cost import WorkloadCost
from joulelab.errors import ConfigError
from joulelab.workloads.base import Workload


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

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return ("run",)

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
