"""The table of every workload in every number format, for a terminal, and its page."""

from collections import Counter
from collections.abc import Sequence

from rich.table import Column, Table

from joulelab.analysis.conclude import REPORT
from joulelab.analysis.knob_study import KnobPhase, Panel, analyse_knobs
from joulelab.analysis.knob_wording import conclude_formats, sentence
from joulelab.analysis.matrix import (
    OUTCOMES,
    Matrix,
    MatrixRow,
    configurations,
    matrix_rows,
    write_matrix_csv,
)
from joulelab.analysis.quantities import uncertain
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.core.measurement import Measurement
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer

TABLE, PLOT = "workloads.csv", "workloads"
_PANELS: tuple[Panel, ...] = ("energy", "throughput")


def conclude_matrix(store: ResultStore, matrix: Matrix) -> tuple[MatrixRow, ...]:
    """Write answer, report, plot and table of a matrix into its folder; return the rows."""
    from joulelab.analysis.matrix_plot import save_matrix_plot

    measurements = store.read()
    rows = matrix_rows(matrix, measurements)
    write_matrix_csv(rows, store.folder / TABLE)
    phases, sentences = _analysed(matrix, measurements)
    answer = "\n".join([tally(rows), *sentences])
    if measurements:
        _write_page(store, answer, phases, measurements)
    plots = save_matrix_plot(rows, store.folder / PLOT)
    files = (*((REPORT,) if measurements else ()), TABLE, *(path.name for path in plots))
    store.write_answer(Answer(note=answer, summary=(), files=files))
    return rows


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
    energy_j, time_s = seen.energy_per_unit_j, seen.time_per_unit_s
    return (
        *named,
        uncertain(energy_j, max(seen.energy_per_unit_u_j or 0.0, 1e-4 * energy_j), "J")
        + f"/{seen.unit}",
        uncertain(time_s, max(seen.time_per_unit_u_s or 0.0, 1e-4 * time_s), "s"),
        "" if seen.power_w is None else f"{seen.power_w:.0f}",
        "" if seen.sm_clock_mhz is None else f"{seen.sm_clock_mhz:.0f}",
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


def _write_page(
    store: ResultStore,
    answer: str,
    phases: Sequence[KnobPhase],
    measurements: Sequence[Measurement],
) -> None:
    from joulelab.analysis.report import knob_section, write_page

    header = store.read_study()
    write_page(
        store.folder / REPORT,
        study=measurements[0].study,
        answer=answer,
        sections=[knob_section(phase, _PANELS, n, measurements) for n, phase in enumerate(phases)],
        measurements=measurements,
        header=header,
    )
