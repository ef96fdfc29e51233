"""Every workload in every number format as a report: page, picture, table and answer."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from rich.table import Column, Table

from joulelab.analysis.baseline import rounded, well_known
from joulelab.analysis.cell_plots import can_plot_matrix, matrix_figure
from joulelab.analysis.knob_report import knob_sections
from joulelab.analysis.knob_study import KnobPhase, Panel, analyse_knobs
from joulelab.analysis.knob_wording import conclude_formats, sentence
from joulelab.analysis.matrix import (
    OUTCOMES,
    Matrix,
    MatrixRow,
    configurations,
    matrix_frame,
)
from joulelab.analysis.study_report import StudyReport
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import Answer, StudyHeader

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
        frame=matrix_frame(rows),
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
        well_known(seen.energy_per_unit_j, seen.energy_per_unit_u_j, f"J/{seen.unit}"),
        well_known(seen.time_per_unit_s, seen.time_per_unit_u_s, "s"),
        rounded(seen.power_w),
        rounded(seen.sm_clock_mhz),
        "cap" if row.is_capped else "",
    )


def _analysed(
    matrix: Matrix, measurements: Sequence[Measurement]
) -> tuple[list[KnobPhase], list[str]]:
    """Compare the formats of every variant of which something was measured."""
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
