"""What a sweep found as one HTML file that needs nothing else: to read, print and keep."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from joulelab.analysis.course_plot import courses_plot
from joulelab.analysis.figure_file import themed_svg
from joulelab.analysis.knob_plot import caption as knob_caption
from joulelab.analysis.knob_plot import knob_figure
from joulelab.analysis.knob_study import KnobPhase, Panel
from joulelab.analysis.knob_table import knob_legend, knob_sheet
from joulelab.analysis.methods import grid_paragraph, methods_paragraph, uncertainty_statement
from joulelab.analysis.plots import can_plot, phase_figure
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.sweep import PhaseResult, SweepResult
from joulelab.analysis.sweep_table import legend, selection, sheet
from joulelab.analysis.table import Sheet
from joulelab.analysis.wording import (
    NOT_HARDWARE,
    board_words,
    percent,
    phase_names,
    point_name,
    sentence,
)
from joulelab.core.drift import Drift
from joulelab.core.measurement import Measurement
from joulelab.objectives import OBJECTIVES
from joulelab.tracking.durable import write_whole
from joulelab.tracking.study import StudyHeader

MAX_ROWS = 24


def write_report(
    result: SweepResult,
    measurements: Sequence[Measurement],
    path: Path,
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
) -> Path:
    """Write the report of a sweep to ``path`` and return it."""
    return write_page(
        path,
        study=result.study,
        answer=sentence(result),
        sections=[
            _section(result, number, measurements, header=header, traces=traces)
            for number in range(len(result.phases))
        ],
        measurements=measurements,
        header=header,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a report, as the template takes it.

    ``whole`` is the table of all rows where ``sheet`` leaves some out, ``courses`` single trials
    over time, ``course`` the best so far over trials.
    """

    name: str
    answer: str
    found: PhaseResult | KnobPhase | SearchResult
    plot: Markup | None
    caption: str
    sheet: Sheet
    legend: Sequence[str]
    methods: str
    level: float
    whole: Sheet | None = None
    whole_name: str = "operating points"
    courses: Markup | None = None
    remarks: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    course: Markup | None = None
    course_caption: str = ""

    @property
    def reasons(self) -> Counter[str]:
        """Why measurements were left out, and how often."""
        return Counter(f.reason for e in self.found.exclusions for f in e.findings)

    @property
    def drifting(self) -> list[Drift]:
        """Trends that are worth a notice."""
        return [drift for drift in self.found.drifts if drift.exceeds(0.01)]

    @property
    def uncertainty(self) -> str:
        """What the error bars hold and what they do not."""
        return uncertainty_statement(self.level)

    @property
    def device(self) -> str:
        """The boards' product."""
        return board_words(self.found.boards[0])


def write_page(
    path: Path,
    *,
    study: str,
    answer: str,
    sections: Sequence[Section],
    measurements: Sequence[Measurement],
    header: StudyHeader | None,
) -> Path:
    """Write a report to ``path`` and return it; ``answer`` is what was found, in words."""
    folder = files("joulelab.analysis")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = percent
    page = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    boards = {board.uuid: board for section in sections for board in section.found.boards}
    text = page.render(
        css=Markup((folder / "report.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        study=study,
        answer=answer.splitlines(),
        sections=sections,
        devices=[boards[uuid] for uuid in sorted(boards)],
        header=header,
        origin=_origin(measurements),
        not_hardware=any(board.backend in NOT_HARDWARE for board in boards.values()),
    )
    write_whole(path, text)
    return path


def _section(
    result: SweepResult,
    number: int,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None,
    traces: Path | None,
) -> Section:
    phase = result.phases[number]
    shown = selection(phase, MAX_ROWS)
    settings = dict(header.settings) if header else {}
    return Section(
        name=phase_names(result)[number],
        answer=sentence(phase),
        found=phase,
        caption=_caption(phase),
        plot=themed_svg(phase_figure(phase, with_head=False), f"p{number}-")
        if can_plot(phase)
        else None,
        sheet=sheet(phase, shown),
        courses=courses_plot(_trials(phase, measurements), traces, f"t{number}-"),
        legend=legend(phase, num_shown=len(phase.rows)),
        whole=sheet(phase, phase.rows) if len(shown) < len(phase.rows) else None,
        methods=methods_paragraph(phase, measurements, settings),
        level=phase.level,
    )


def knob_section(
    phase: KnobPhase, panels: Sequence[Panel], number: int, measurements: Sequence[Measurement]
) -> Section:
    """Put a phase of a study of knobs into the words and the plot of a section of a report."""
    has_plot = len(phase.measured) > 1
    return Section(
        name=phase.title,
        answer=f"{phase.title} over {', '.join(axis.title for axis in phase.axes)}",
        found=phase,
        plot=themed_svg(knob_figure([phase], panels), f"p{number}-") if has_plot else None,
        caption=knob_caption(phase),
        sheet=knob_sheet(phase),
        legend=knob_legend(phase),
        methods=grid_paragraph(phase, measurements),
        level=phase.level,
    )


def _trials(
    phase: PhaseResult, measurements: Sequence[Measurement]
) -> list[tuple[str, Measurement]]:
    """Name a trial at the driver's default and one at the best point."""
    wanted = [row for row, _ in phase.measured if row.point.is_default]
    wanted += [row for row, _ in phase.measured if row.point.label == phase.recommended]
    trials = {row.point.label: point_name(row) for row in wanted}
    boards = {board.uuid for board in phase.boards}
    found: dict[str, Measurement] = {}
    for m in measurements:
        of_phase = (m.configuration.workload, m.configuration.knobs, m.phase) == (
            phase.workload,
            phase.knobs,
            phase.phase,
        )
        label = m.configuration.point.label
        if m.valid and of_phase and m.device.uuid in boards and label in trials:
            found.setdefault(label, m)
    return [(name, found[label]) for label, name in trials.items() if label in found]


def _caption(phase: PhaseResult) -> str:
    aim = OBJECTIVES[phase.objective].label
    return (
        f"Energy, time and {aim} per {phase.unit} over the requested SM clock, and energy against "
        "time. Green: clocks that are statistically indistinguishable from the one of the lowest "
        f"{aim}, which has a ring ({100 * phase.level:.0f} %); the one that is named is the "
        "fastest of them. Bars: expanded uncertainty, k=2. The thick line is the Pareto front."
    )


def _origin(measurements: Sequence[Measurement]) -> list[tuple[str, str]]:
    """List what is known of where the measurements came from, each value once."""
    found = [m.provenance for m in measurements]
    times = sorted(p.started_at for p in found)

    def each(name: str) -> str:
        return ", ".join(sorted({str(v) for p in found if (v := getattr(p, name)) is not None}))

    known = [
        ("joulelab", each("joulelab_version")),
        ("commit", each("git_sha")),
        ("machines", each("hostname")),
        ("Python", each("python_version")),
        ("PyTorch", each("torch_version")),
        ("weights", each("weights")),
        ("licence", each("licence")),
        ("first measurement", times[0]),
        ("last measurement", times[-1]),
        ("SLURM job", each("slurm_job_id")),
        ("Ray job", each("ray_job_id")),
    ]
    return [(name, value) for name, value in known if value]
