"""State machine x AR(1): a power level for each phase, a lag, and scatter with a memory.

The phases are the states; the schedule says which one holds. The scatter is what every trace model
samples, see :mod:`.fluctuation`.
"""

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from joulelab.power_models.runs import Array
from joulelab.power_models.state import State
from joulelab.power_models.traces.base import TraceModel
from joulelab.power_models.traces.levels import Levels
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule


class StateMachineModel(TraceModel):
    """Levels by phase, each following the activities; changes with a lag."""

    name: ClassVar[str] = "state_machine_ar1"

    @override
    def learn(self, traces: Sequence[LoadTrace]) -> None:
        self._levels = Levels.of(traces, self.encoding)

    @override
    def answer(self, schedule: Schedule) -> Array:
        return self._levels.power_w(schedule)

    @override
    def _state(self) -> State:
        return self._levels.state()

    @override
    def _restore(self, state: State) -> None:
        self._levels = Levels.of_state(state, self.encoding)
