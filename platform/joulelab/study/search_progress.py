"""Show a search as it runs: how far it is, the best so far, what it took, how long it will take."""

import time
from collections import deque
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from typing_extensions import override

from joulelab.analysis.quantities import quantity, spell
from joulelab.analysis.search_result import chart_point
from joulelab.analysis.search_wording import configuration_name
from joulelab.searching.base import Outcome
from joulelab.searching.course import Course
from joulelab.searching.evidence import Problem
from joulelab.study.budget import Budget
from joulelab.study.events import StudyStarted, TrialMeasured
from joulelab.study.progress import StudyProgress
from joulelab.tracking.study import ChartPoint

_RECENT = 20  # trials over which the rate is taken
_WIDE = 110  # columns of a terminal from which on there is room for a bar before the line
_SMALL = 0.1  # ratio to the baseline below which what is left says more than what is saved


class SearchProgress(StudyProgress):
    """A live line for a search; call it with every event, and have it follow every outcome.

    On a terminal it is a moving bar; elsewhere a line at every tenth of the budget, or at every
    tenth trial where there is no budget. ``clock`` returns seconds that only grow.
    """

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        console: Console | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console)
        self.course = Course(problem)
        self._problem = problem
        self._budget = budget
        self._clock = clock
        self._start_s: float | None = None
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=_RECENT)
        self._tenths = 0

    def follow(self, outcome: Outcome, spent_j: float) -> ChartPoint:
        """Take in what came of a trial, ``spent_j`` joules in, and show where the search stands."""
        step = self.course.add(outcome, spent_j=spent_j)
        if self._start_s is not None:  # those of earlier runs come before this one begins
            self._note_rate()
            self._show()
            self._tell_now_and_then()
        return chart_point(step)

    @property
    def line(self) -> str:
        """Where the search stands, on one line."""
        num, total = len(self.course.steps), self._budget.num_trials
        done = f"{num} trials" if total is None else f"{num} of {total} trials"
        spent = quantity(self._spent_j, "J", digits=3)
        left_s = self._left_s()
        left = f", {_duration(left_s)} left" if left_s else ""
        return f"{done}, {self._best()}, {spent}{left}"

    @override
    def _make_bar(self) -> Progress:
        return Progress(
            *([BarColumn(bar_width=16)] if self._console.width >= _WIDE else []),
            TextColumn("{task.fields[now]}", markup=False, table_column=Column(no_wrap=True)),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    @override
    def _begin(self, event: StudyStarted) -> None:
        self._start_s = self._clock()
        self._note_rate()
        self._tenths = self._num_tenths()
        space, num = self._problem.space, len(event.uuids)
        again = f", going on after {event.num_skipped} trials" if event.num_skipped else ""
        bounds = f", within {self._budget.words}" if self._budget.words else ""
        self._tell(
            f"Searching {len(space)} configurations of {space.workload} for the lowest "
            f"{self._problem.objective.label} on {num} GPU{'s' if num > 1 else ''}{bounds}{again}"
        )
        self._show()

    @override
    def _tell_findings(self, event: TrialMeasured) -> None:
        """Tell what is wrong with a trial, unless it is the power cap, which is none's fault."""
        findings = {f.reason for record in event.records for f in record.measurement.findings}
        if findings != {"power_capped"}:
            super()._tell_findings(event)

    @override
    def _show(self) -> None:
        share = self._share()
        self._bar.update(
            self._task,
            total=None if share is None else 1.0,
            completed=share or 0.0,
            now=self.line,
        )

    @override
    def _tell_done(self) -> None:
        """Leave it to :meth:`follow`, which knows more."""

    def _tell_now_and_then(self) -> None:
        tenths = self._num_tenths()
        if self._bar.disable and tenths > self._tenths:
            self._tell(self.line)
        self._tenths = tenths

    def _tell(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _num_tenths(self) -> int:
        share = self._share()
        return int(10 * share + 1e-9) if share is not None else len(self.course.steps) // 10

    @property
    def _spent_j(self) -> float:
        return self.course.steps[-1].spent_j if self.course.steps else 0.0

    def _note_rate(self) -> None:
        self._recent.append((self._clock(), len(self.course.steps), self._spent_j))

    def _best(self) -> str:
        step = self.course.steps[-1] if self.course.steps else None
        if step is None or step.best is None or step.best_cost_ratio is None:
            return "nothing measured yet"
        if not step.is_feasible:
            return "nothing yet that keeps to the constraints"
        if step.best == self._problem.space.baseline:
            return "best is the baseline"
        name = configuration_name(step.best, self._problem.space)
        ratio, goal = step.best_cost_ratio, self._problem.objective.label
        if ratio < _SMALL:
            return f"best {name}: {100 * ratio:.3g} % of the baseline's {goal}"
        return f"best {name}: {100 * (ratio - 1):+.1f} % {goal}"

    def _share(self) -> float | None:
        """Return how much of the budget is used (0 to 1); ``None`` without a budget."""
        shares = [used / bound for used, bound, _ in self._bounds()]
        return min(max(shares), 1.0) if shares else None

    def _left_s(self) -> float | None:
        """Return the time until a bound is reached at the recent rate; ``None`` if unknown."""
        lengths_s = [(bound - used) / rate for used, bound, rate in self._bounds() if rate > 0]
        return max(min(lengths_s), 0.0) if lengths_s else None

    def _bounds(self) -> list[tuple[float, float, float]]:
        """Return, of each bound, what is used of it, the bound, and how fast it is used up."""
        first_s, first_num, first_j = self._recent[0]
        last_s, last_num, last_j = self._recent[-1]
        length_s = last_s - first_s
        num_rate, power_w = (
            ((last_num - first_num) / length_s, (last_j - first_j) / length_s)
            if length_s > 0
            else (0.0, 0.0)
        )
        start_s = first_s if self._start_s is None else self._start_s
        used = (
            (float(len(self.course.steps)), self._budget.num_trials, num_rate),
            (self._clock() - start_s, self._budget.wall_s, 1.0),
            (self._spent_j, self._budget.energy_j, power_w),
        )
        return [(now, float(bound), rate) for now, bound, rate in used if bound is not None]


def _duration(length_s: float) -> str:
    return f"about {spell(max(round(length_s, -1), 10) if length_s < 90 else length_s)}"
