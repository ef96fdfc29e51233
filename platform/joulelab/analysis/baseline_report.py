"""What workloads cost at the driver's own clocks as a report: picture, table and answer."""

from collections.abc import Sequence
from functools import partial

from joulelab.analysis.baseline import (
    baseline_frame,
    baseline_rows,
    baseline_table,
    cost,
    row_name,
    varying_knobs,
)
from joulelab.analysis.cell_plots import baseline_figure
from joulelab.analysis.study_report import StudyReport
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import Answer, StudyHeader

TABLE, PLOT = "baseline.csv", "baseline"


def baseline_report(measurements: Sequence[Measurement], header: StudyHeader | None) -> StudyReport:
    """Put a baseline into words, a table and a picture."""
    rows = baseline_rows(measurements)
    valid = [row for row in rows if row.power_w is not None]
    named = [row_name(row, varying_knobs(rows, row.workload)) for row in rows]
    costs = [cost(row) or "no valid measurement" for row in rows]
    answer = "\n".join(f"{name}: {each}" for name, each in zip(named, costs, strict=True))
    return StudyReport(
        title=answer,
        answer=Answer(note=answer),
        table=TABLE,
        frame=baseline_frame(rows),
        figures={PLOT: partial(baseline_figure, valid)} if valid else {},
        overview=baseline_table(rows),
        measurements=measurements,
        header=header,
    )
