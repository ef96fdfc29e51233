"""A workload in the place of another, which it has run elsewhere, or plays."""

from typing import Any

from typing_extensions import override

from joulelab.workloads.base import Workload


class StandIn(Workload[Any]):
    """Has the settings, the phases and the unit of the workload that it stands for."""

    def __init__(self, workload: Workload[Any]) -> None:
        super().__init__(workload.settings)
        self.unit = workload.unit  # type: ignore[misc]  # of this one, not of its class
        self._workload = workload

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._workload.phases
