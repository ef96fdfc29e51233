"""Workloads at the driver's own clocks, and in every format, as reports: picture, table, answer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from math import log2, nan

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from rich.table import Column, Table

from joulelab.analysis import baseline
from joulelab.analysis.knob_grid import Panel
from joulelab.analysis.knob_report import knob_sections
from joulelab.analysis.knob_study import KnobPhase, analyse_knobs
from joulelab.analysis.knob_wording import conclude_formats, sentence
from joulelab.analysis.matrix import COLUMNS, OUTCOMES, Matrix, MatrixRow, configurations
from joulelab.analysis.quantities import PLUS_MINUS
from joulelab.analysis.study_report import StudyReport
from joulelab.analysis.style import BEST, CAPPED, COVERAGE, CURVE, INK, PAPER, in_style, note, tidy
from joulelab.analysis.table import frame, numbers, quiet_table, words
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import Answer, StudyHeader

BASELINE_TABLE, BASELINE_PLOT = "baseline.csv", "baseline"


def baseline_report(measurements: Sequence[Measurement], header: StudyHeader | None) -> StudyReport:
    """Put a baseline into words, a table and a picture."""
    rows = baseline.baseline_rows(measurements)
    valid = [row for row in rows if row.power_w is not None]
    named = [baseline.row_name(row, baseline.varying_knobs(rows, row.workload)) for row in rows]
    costs = [baseline.cost(row) or "no valid measurement" for row in rows]
    answer = "\n".join(f"{name}: {each}" for name, each in zip(named, costs, strict=True))
    return StudyReport(
        title=answer,
        answer=Answer(note=answer),
        table=BASELINE_TABLE,
        frame=frame(baseline.COLUMNS, rows, digits=6),
        figures={BASELINE_PLOT: partial(baseline_figure, valid)} if valid else {},
        overview=baseline.baseline_table(rows),
        measurements=measurements,
        header=header,
    )


TABLE, PLOT = "workloads.csv", "workloads"
_PANELS: tuple[Panel, ...] = ("energy", "throughput")


def matrix_report(
    matrix: Matrix,
    rows: Sequence[MatrixRow],
    measurements: Sequence[Measurement],
    header: StudyHeader | None,
) -> StudyReport:
    """Put a matrix into words, a table and a picture."""
    phases, sentences = _analysed(matrix, measurements)
    answer = "\n".join([tally(rows), *sentences])
    return StudyReport(
        title=answer,
        answer=Answer(note=answer),
        table=TABLE,
        frame=frame(COLUMNS, rows, digits=6),
        figures={PLOT: partial(matrix_figure, rows)} if can_plot_matrix(rows) else {},
        sections=knob_sections(phases, _PANELS, measurements),
        overview=matrix_table(rows),
        measurements=measurements,
        header=header,
    )


def tally(rows: Sequence[MatrixRow]) -> str:
    """Say what became of how many rows."""
    counts = Counter(row.outcome for row in rows)
    parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    return f"{len(rows)} cells and phases: {', '.join(parts)}."


def matrix_table(rows: Sequence[MatrixRow]) -> Table:
    """Lay out ``rows``, those that the workload refuses left out."""
    device = ", ".join(sorted({row.seen.device for row in rows if row.seen is not None}))
    table = quiet_table(
        *words("workload", "format", "batch", "phase"),
        Column("energy", overflow="fold"),
        *numbers("time", "power\nW", "clock\nMHz", "cap"),
        title=f"At the driver's own clocks on {device or 'no GPU yet'}",
        caption="± is the standard uncertainty (k = 1) from windows and readings; the sensor's own "
        "class, some 5 % between boards, is not in it. cap: the power cap held the clock down.",
        pad_edge=True,
    )
    for row in rows:
        if row.outcome != "refused":
            table.add_row(*_cells(row))
    return table


def _cells(row: MatrixRow) -> tuple[str, ...]:
    named = (
        f"{row.workload} {row.variant}" if row.variant != row.workload else row.workload,
        row.precision,
        "" if row.batch is None else str(row.batch),
        row.phase,
    )
    seen = row.seen
    if seen is None or seen.energy_per_unit_j is None or seen.time_per_unit_s is None:
        return (*named, f"[red]{row.outcome}[/]: {row.reason[:160]}", "", "", "", "")
    return (
        *named,
        baseline.well_known(seen.energy_per_unit_j, seen.energy_per_unit_u_j, f"J/{seen.unit}"),
        baseline.well_known(seen.time_per_unit_s, seen.time_per_unit_u_s, "s"),
        baseline.rounded(seen.power_w),
        baseline.rounded(seen.sm_clock_mhz),
        "cap" if row.is_capped else "",
    )


def _analysed(
    matrix: Matrix, measurements: Sequence[Measurement]
) -> tuple[list[KnobPhase], list[str]]:
    known = {measurement.configuration for measurement in measurements}
    phases: list[KnobPhase] = []
    sentences: list[str] = []
    for variant, grid in matrix:
        if known.isdisjoint(configurations([(variant, grid)])):
            continue
        result = analyse_knobs(measurements, grid)
        phases += result.phases
        if len(grid.axes) > 1:
            lines = sentence(result, conclude_formats).splitlines()
            sentences += [f"{variant.name}: {line}" for line in lines]
    return phases, sentences


_OFTEN = 2.0  # doublings of energy at which the colour is full
_WITHOUT = {
    "refused": "refused",
    "unsupported": "cannot run",
    "invalid": "invalid",
    "missing": "missing",
}
_LABEL_IN, _CELL_IN = 3.6, (0.85, 0.24)


def can_plot_matrix(rows: Sequence[MatrixRow], *, reference: str = "bf16") -> bool:
    """Whether any cell of the ``reference`` format has a figure."""
    return any(_energy_j(line.get(reference)) for line in _lines(rows).values())


@in_style
def matrix_figure(rows: Sequence[MatrixRow], *, reference: str = "bf16") -> Figure:
    """Draw the energy of every format over that of ``reference``, a cell each.

    A program that has no figure in that format is compared with its first one that has.
    """
    lines, precisions = _lines(rows), list(dict.fromkeys(row.precision for row in rows))
    references = [_reference(line, reference) for line in lines.values()]
    cells = [
        [_cell(line.get(each), line.get(one)) for each in precisions]
        for line, one in zip(lines.values(), references, strict=True)
    ]
    width_in, height_in = _LABEL_IN + _CELL_IN[0] * len(precisions), _CELL_IN[1] * len(lines)
    figure = Figure(figsize=(width_in + 0.2, height_in + 1.0))
    axes = figure.add_axes(
        (
            _LABEL_IN / (width_in + 0.2), 0.1 / (height_in + 1.0),
            (width_in - _LABEL_IN) / (width_in + 0.2), height_in / (height_in + 1.0),
        )
    )  # fmt: skip
    axes.imshow(
        np.ma.masked_invalid([[log for log, _ in line] for line in cells]), aspect="auto",
        vmin=-_OFTEN, vmax=_OFTEN,
        cmap=LinearSegmentedColormap.from_list("ratio", [CURVE, PAPER, BEST]),
    )  # fmt: skip
    for x, y in product(range(len(precisions)), range(len(lines))):
        log, text = cells[y][x]
        known = np.isfinite(log)
        color = PAPER if known and abs(log) > 0.6 * _OFTEN else INK
        size = 8 if known else 6.5
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)
    others = ["" if one == reference else f" (over {one})" for one in references]
    axes.set_xticks(range(len(precisions)), precisions)
    names = [f"{name}{over}" for name, over in zip(lines, others, strict=True)]
    axes.set_yticks(range(len(lines)), names)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    is_starred = any(text.endswith("*") for line in cells for _, text in line)
    star = ", * measured on another board" * is_starred
    axes.set_title(f"Energy per unit of work over that of {reference}{star}", loc="left", pad=22)
    return figure


def _lines(rows: Sequence[MatrixRow]) -> dict[str, dict[str, MatrixRow]]:
    """Gather the formats of each variant, batch and phase, by their name.

    What is refused has no phase: it is so in all of them.
    """
    phases: dict[object, dict[str, None]] = {}
    for row in rows:
        known = phases.setdefault((row.workload, row.variant, row.batch), {})
        if row.phase:
            known[row.phase] = None
    lines: dict[str, dict[str, MatrixRow]] = {}
    for row in rows:
        batch = "" if row.batch is None else f", batch {row.batch}"
        own = phases[row.workload, row.variant, row.batch]
        for phase in [row.phase] if row.phase else own:
            named = dict.fromkeys((row.workload, row.variant, phase))
            lines.setdefault(f"{' '.join(named)}{batch}", {})[row.precision] = row
    return lines


def _reference(line: Mapping[str, MatrixRow], wanted: str) -> str:
    """Return the format to compare with: the one wanted, else the first that has a figure."""
    measured = [precision for precision, row in line.items() if _energy_j(row)]
    return wanted if wanted in measured or not measured else measured[0]


def _cell(row: MatrixRow | None, reference: MatrixRow | None) -> tuple[float, str]:
    """Return the doublings of energy over the reference, and what is written.

    That is the ratio, with a star if no board has both, or why there is none.
    """
    energy_j, reference_j = _energy_j(row), _energy_j(reference)
    if row is None or reference is None or not (energy_j and reference_j):
        return nan, "" if row is None else _WITHOUT.get(row.outcome, "")
    has_boards = bool(row.boards and reference.boards)
    is_apart = has_boards and not set(row.boards) & set(reference.boards)
    return log2(energy_j / reference_j), f"{energy_j / reference_j:.2f}{'*' * is_apart}"


def _energy_j(row: MatrixRow | None) -> float | None:
    return None if row is None or row.seen is None else row.seen.energy_per_unit_j


def baseline_figure(rows: Sequence[baseline.BaselineRow]) -> Figure:
    """Draw power under load and at rest of rows that have valid measurements."""
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    devices = ", ".join(sorted({row.device for row in rows}))
    marks = f"bars: {PLUS_MINUS} k={COVERAGE}; costs: {PLUS_MINUS} standard uncertainty"
    tidy(axes, f"Power at the driver's own clocks on {devices}", marks, "W")
    places = range(len(rows))
    powers_w = [row.power_w or 0.0 for row in rows]
    expanded_w = [COVERAGE * (row.power_u_w or 0.0) for row in rows]
    idle_w = [row.idle_power_w or 0.0 for row in rows]
    axes.barh(places, powers_w, color=CURVE, height=0.66, label="under load")
    axes.barh(places, idle_w, color=CAPPED, height=0.66, label="at rest")
    axes.errorbar(powers_w, places, xerr=expanded_w, fmt="none", ecolor=INK, elinewidth=0.9)
    for place, row in enumerate(rows):
        at = powers_w[place] + expanded_w[place], place
        note(axes, baseline.cost(row), at, (6, 0), size=8, va="center")
    names = [baseline.row_name(row, baseline.varying_knobs(rows, row.workload)) for row in rows]
    axes.set_yticks(places, names, color=INK)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.75 * max(powers_w))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return figure
