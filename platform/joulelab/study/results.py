"""What studies of this process return: numbers, tables, plots, a report."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from joulelab.analysis.products import products_sentences, side_by_side
from joulelab.analysis.search_result import SearchResult, SearchRow
from joulelab.analysis.search_wording import score_words
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow, analyse_sweep
from joulelab.analysis.wording import sentence as sweep_sentence
from joulelab.core.configuration import Configuration, knob_words
from joulelab.core.measurement import Measurement
from joulelab.errors import ANALYSIS, ConfigError, MeasurementError, require
from joulelab.registry import unknown_name
from joulelab.searching.scores import Scores
from joulelab.study.conclude import Found, report_of
from joulelab.study.ledger import StudySummary
from joulelab.tracking.store import ResultStore

if TYPE_CHECKING:  # pandas and matplotlib take a second; numbers alone need neither
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class StudyResult(ABC):
    """What every study returns.

    Attributes:
        folder: Its results folder: ``joulelab report`` and ``joulelab sync`` take it.
        summary: What became of its trials.
    """

    folder: Path
    summary: StudySummary

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Everything that was measured of it, valid or not, read from the folder."""
        return tuple(m for m in ResultStore(self.folder).read() if self._is_own(m))

    def report(self, path: str | Path) -> Path:
        """Write the report as an HTML page that needs no other file, and return its path."""
        require(*ANALYSIS)
        return report_of(ResultStore(self.folder), self._found()).write_page(Path(path))

    @abstractmethod
    def _found(self) -> Found:
        """Return what the page is of."""

    def _is_own(self, _measurement: Measurement) -> bool:
        """Whether it is of what was asked for: a folder may hold several programs."""
        return True

    def _choose(self, name: str | None, known: Sequence[str], kind: str = "phase") -> str:
        if name is None and len(known) == 1:
            return known[0]
        if name is None:
            raise ConfigError(f"Say which {kind}: {', '.join(known)}.")
        if name not in known:
            raise unknown_name(kind, name, known)
        return name


@dataclass(frozen=True, kw_only=True)
class MeasureResult(StudyResult):
    """One configuration, measured; ``str()`` tells it in words, as ``joulelab measure`` does.

    Attributes:
        asked: What was to be measured; other configurations in the folder are left out.
    """

    asked: Configuration

    def measurement(self, phase: str | None = None) -> Measurement:
        """Return the measurement of a phase, by default of the only one; the last of repeats.

        Its ``energy_per_unit_j``, ``time_per_unit_s`` and ``power_w`` raise
        :class:`~joulelab.errors.MeasurementError` with the reasons if it is not valid.

        Raises:
            ConfigError: If there are several phases, and none was named.
            UnknownNameError: If there is no such phase.
            MeasurementError: If nothing was measured of it.
        """
        by_phase = {each.phase: each for each in self._last()}
        return by_phase[self._choose(phase, list(by_phase))]

    @property
    def valid(self) -> bool:
        """Whether every phase was measured validly."""
        return bool(self.measurements) and all(each.valid for each in self._last())

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each measurement, with units in the names of the columns."""
        require("pandas")
        from joulelab.analysis.measurement_lines import measurements_frame

        return measurements_frame(self.measurements)

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw the power over the measured windows; also into ``path``, whose suffix says how.

        Raises:
            MeasurementError: If no samples were kept: the device has none.
        """
        require(*ANALYSIS)
        from joulelab.analysis.course_plot import trace_figure

        store, last = ResultStore(self.folder), self._last()
        kept = [each for each in last if store.trace_path(each.measurement_id).exists()]
        if not kept:
            raise MeasurementError("There are no samples of power to draw: see `to_frame()`.")
        traces = {each.phase: store.read_trace(each.measurement_id) for each in kept}
        first = last[0]
        title = f"{first.configuration.workload} on {first.device.name}"
        return drawn(trace_figure(traces, title=title), path)

    @override
    def _found(self) -> SweepResult:
        return analyse_sweep(self.measurements)

    @override
    def __str__(self) -> str:
        from joulelab.analysis.measurement_lines import report_lines
        from joulelab.core.record import Record

        return "\n".join(report_lines([Record(measurement=m, trace=None) for m in self._last()]))

    @override
    def _is_own(self, measurement: Measurement) -> bool:
        return measurement.configuration == self.asked

    def _last(self) -> list[Measurement]:
        last = list({each.phase: each for each in self.measurements}.values())
        if not last:
            knobs = knob_words(self.asked.knobs)
            raise MeasurementError(
                f"{self.folder} holds no measurement of {self.asked.workload} ({knobs}) at "
                f"{self.asked.point.label}: see `summary` for what became of its trials."
            )
        return last


@dataclass(frozen=True, kw_only=True)
class SweepStudy(StudyResult):
    """Operating points of a program, compared; ``str()`` is the answer in words.

    Attributes:
        asked: The program and its knobs; others in the folder are left out.
        result: What was found, phase by phase.
    """

    asked: Configuration
    result: SweepResult

    def phase(self, name: str | None = None, *, product: str | None = None) -> PhaseResult:
        """Return what was found of a phase on a product, by default of the only one.

        Args:
            name: Name of the phase.
            product: Name of the product, as the driver has it.

        Raises:
            ConfigError: If there are several phases or products, and none was named.
            UnknownNameError: If there is no such phase or product.
        """
        products = list(dict.fromkeys(each.device_name for each in self.result.phases))
        chosen = self._choose(product, products, "product")
        phases = [each for each in self.result.phases if each.device_name == chosen]
        by_name = {each.phase: each for each in phases}
        return by_name[self._choose(name, list(by_name))]

    @property
    def best(self) -> SweepRow:
        """The operating point to use, the fastest of the confidence set of the lowest objective.

        Of several phases or products see :meth:`phase`, which also tells the lowest and the whole
        set.

        Raises:
            MeasurementError: If nothing was measured validly.
        """
        phase = self.phase()
        if phase.best is None:
            raise MeasurementError("Nothing was measured validly: see `to_frame()` for reasons.")
        return phase.best

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each operating point and phase, in SI units, as ``sweep.csv`` has."""
        from joulelab.analysis.sweep_report import sweep_frame

        return sweep_frame(self.result).to_pandas()

    def plot(
        self,
        path: str | Path | None = None,
        *,
        phase: str | None = None,
        product: str | None = None,
    ) -> "Figure":
        """Draw energy, time and objective over the clock; also into ``path``.

        Raises:
            MeasurementError: If fewer than two points were measured validly.
        """
        from joulelab.analysis.plots import can_plot, phase_figure

        found = self.phase(phase, product=product)
        if not can_plot(found):
            raise MeasurementError("A plot needs two points that were measured validly.")
        return drawn(phase_figure(found), path)

    @override
    def _found(self) -> SweepResult:
        return self.result

    @override
    def _is_own(self, measurement: Measurement) -> bool:
        return measurement.configuration.program == self.asked.program

    @override
    def __str__(self) -> str:
        across = products_sentences(side_by_side(self.result))
        return "\n".join([sweep_sentence(self.result), *across])


def drawn(figure: "Figure", path: str | Path | None) -> "Figure":
    """Return ``figure``, after it was written to ``path`` if there is one."""
    if path is not None:
        from joulelab.analysis.style import save_figure

        save_figure(figure, Path(path))
    return figure


@dataclass(frozen=True, kw_only=True)
class SearchStudy(StudyResult):
    """Configurations of a program, searched; ``str()`` is the answer in words.

    Attributes:
        result: What was found, and on which way.
        words: What was done and why it ended, in one sentence.
        scores: What outputs keep of the baseline's quality; ``None`` where it did not count.
    """

    result: SearchResult
    words: str
    scores: Scores | None = None

    @property
    def best(self) -> SearchRow:
        """The configuration to choose; the baseline if none is better."""
        return next(row for row in self.result.rows if row.is_best)

    @property
    def fastest(self) -> SearchRow:
        """The fastest that is statistically indistinguishable from :attr:`best`."""
        fastest = self.result.answer.fastest.configuration
        return next(row for row in self.result.rows if row.configuration == fastest)

    @property
    def front(self) -> tuple[SearchRow, ...]:
        """What nothing else that is allowed beats in all of energy, time and quality."""
        return tuple(row for row in self.result.rows if row.on_front)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each configuration tried, in SI units, as ``search.csv`` has."""
        from joulelab.analysis.search_report import search_frame

        return search_frame(self.result).to_pandas()

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw energy against time of everything that was measured; also into ``path``.

        Raises:
            MeasurementError: If fewer than two configurations were measured validly.
        """
        from joulelab.analysis.search_plot import can_plot_search, front_figure

        if not can_plot_search(self.result):
            raise MeasurementError("A plot needs two configurations that were measured validly.")
        return drawn(front_figure(self.result), path)

    @override
    def _found(self) -> SearchResult:
        return self.result

    @override
    def __str__(self) -> str:
        if self.scores is None:
            return self.result.sentence
        return f"{score_words(self.result.problem.space, self.scores)}\n{self.result.sentence}"
