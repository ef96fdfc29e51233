"""A study's report, whatever its kind: printed, tabulated, drawn, and as one HTML file."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from joulelab.analysis import search_wording
from joulelab.analysis.compared import Phase
from joulelab.analysis.listing import Closing, Listing
from joulelab.analysis.measurement_lines import NOT_HARDWARE_NOTE
from joulelab.analysis.page import render
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.style import save_figure, save_png_and_svg, themed_svg
from joulelab.analysis.table import Frame, fitting, latex
from joulelab.analysis.wording import constraint_words
from joulelab.core.device import NOT_HARDWARE, board_words
from joulelab.core.measurement import Measurement
from joulelab.core.steadiness import Drift
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, StudyHeader

REPORT = "report.html"
Draw = Callable[[], Figure | None]
MAX_ROWS = 24  # of a table on a page; all are below it


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a report, as the template takes it.

    ``plot`` draws what was found, ``course`` the best so far over trials, ``courses`` single
    trials over time, of which nothing may have been kept. ``beside`` are further tables, and
    ``found`` is what the section is of.
    """

    name: str
    answer: str
    found: Phase[Any] | SearchResult
    plot: Draw | None
    caption: str
    listing: Listing[Any, Any]
    methods: str
    level: float
    courses: Draw | None = None
    remarks: Sequence[str] = ()
    course: Draw | None = None
    course_caption: str = ""
    beside: Sequence[Table] = ()

    @property
    def shown(self) -> Sequence[Any]:
        """The rows of the table."""
        return tuple(self.listing.choose(MAX_ROWS))

    @property
    def reasons(self) -> Counter[str]:
        """Why measurements were left out, and how often."""
        return Counter(f.reason for e in self.found.exclusions for f in e.measurement.findings)

    @property
    def drifting(self) -> list[Drift]:
        """Trends that are worth a notice."""
        return [drift for drift in self.found.drifts if drift.exceeds(0.01)]

    @property
    def device(self) -> str:
        """The boards' product."""
        return board_words(self.found.boards[0])

    @property
    def on_device(self) -> str:
        """On what it was measured, unless its name says it."""
        return "" if self.device in self.name else f" on {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """What a study found, with all that shows it.

    ``title`` stands above the page; ``answer`` lacks the names of files; ``table`` is the file that
    holds ``frame``. ``figures``, and ``panels`` for papers, are by the stems of their files. A
    terminal shows the tables of ``sections``, or ``overview`` in their place; ``closings`` come
    after them. Further ``tables`` are by the names of their files.
    """

    title: str
    answer: Answer
    table: str
    frame: Frame
    figures: Mapping[str, Callable[[], Figure]]
    panels: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    closings: Sequence[Closing] = ()
    tables: Mapping[str, Frame] = field(default_factory=dict)
    measurements: Sequence[Measurement]
    header: StudyHeader | None
    overview: Table | None = None

    def write(self, store: ResultStore) -> Answer:
        """Write answer, page, figures and table into the study's results folder.

        Raises TrackingError if one cannot be written.
        """
        plots = [
            path.name
            for stem, draw in self.figures.items()
            for path in save_png_and_svg(draw(), store.folder / stem)
        ]
        tables = {self.table: self.frame, **self.tables}
        for name, frame in tables.items():
            frame.write(store.folder / name)
        has_page = self.measurements and self.sections
        pages = [self.write_page(store.folder / REPORT).name] if has_page else []
        answer = replace(self.answer, files=(*pages, *tables, *plots))
        store.write_answer(answer)
        return answer

    def write_page(self, path: Path) -> Path:
        """Write one HTML file that needs nothing else to ``path`` and return it."""
        write_whole(path, self.page())
        return path

    def page(self, template: str = "report.html.j2", **values: object) -> str:
        """Return the page, by a template that may take further ``values``."""
        boards = {m.device.uuid: m.device for m in self.measurements}
        shown = {
            "title": self.measurements[0].study if self.measurements else "",
            "answer": self.title.splitlines(),
            "sections": self.sections,
            "closings": self.closings,
            "drawn": _drawn,
            "devices": [boards[uuid] for uuid in sorted(boards)],
            "header": self.header,
            "measurements": self.measurements,
            "name": search_wording.configuration_name,
            "payback": search_wording.payback,
            "bound": constraint_words,
            "not_hardware": NOT_HARDWARE_NOTE
            * any(board.backend in NOT_HARDWARE for board in boards.values()),
        }
        return render(template, **shown | values)

    def write_for_papers(self, folder: Path, *, max_rows: int | None = 20) -> tuple[Path, ...]:
        """Write panels as PDF and tables for LaTeX into ``folder`` and return their paths.

        Tables have ``max_rows`` at most, those that tell the story.
        """
        panels = {folder / f"{stem}.pdf": draw for stem, draw in self.panels.items()}
        for path, draw in panels.items():
            save_figure(draw(), path)
        wide = Console(width=1000)
        tables = {
            each.name + each.on_device: each.listing.fitting(wide, max_rows=max_rows)
            for each in self.sections
        } | {each.name: each.lay(()) for each in self.closings}
        written = {folder / f"table-{file_stem(name)}.tex": name for name in tables}
        for path, name in written.items():
            write_whole(path, f"% {name}\n{latex(tables[name])}")
        return (*panels, *written)

    def print(
        self, folder: Path, *, max_rows: int | None = 20, console: Console | None = None
    ) -> None:
        """Print tables, the answer, and where in its results folder the rest is."""
        console = console or Console()
        if not console.is_terminal:
            console.width = max(console.width, 100)
        for each in self._tables(console, max_rows):
            console.print(each)
        console.print(self.answer.note, style="bold", highlight=False, markup=False)
        written = ResultStore(folder).read_answer()
        for file in written.files if written is not None else ():
            console.print(f"  {folder / file}", soft_wrap=True, highlight=False)

    def _tables(self, console: Console, max_rows: int | None) -> Iterator[RenderableType]:
        if self.overview is not None:
            yield self.overview
            return
        for section in self.sections:
            yield f"\n[bold]{section.name}[/]{section.on_device}"
            more = f"{self.table} has all"
            yield section.listing.fitting(console, max_rows=max_rows, more=more)
            yield from section.beside
        for closing in self.closings:
            yield f"\n[bold]{escape(closing.name)}[/]"
            yield fitting(console, closing.lay, closing.minor)
            yield from (Text(note) for note in closing.notes)


def nothing_to_report(
    why: str, measurements: Sequence[Measurement], header: StudyHeader | None
) -> StudyReport:
    """Return the report of a study of which nothing can be said yet."""
    return StudyReport(
        title=f"There is nothing to report yet. {why}",
        answer=Answer(note=why),
        table="",
        frame=Frame(columns=(), rows=[]),
        figures={},
        measurements=measurements,
        header=header,
    )


def file_stem(name: str) -> str:
    """Return ``name`` as part of the name of a file, or of one of MLflow's metrics."""
    return re.sub(r"[^\w.-]+", "-", name)


def _drawn(draw: Draw | None, prefix: str) -> Markup | None:
    figure = None if draw is None else draw()
    return None if figure is None else themed_svg(figure, prefix)
