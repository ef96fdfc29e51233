"""What the outputs of a grid of knobs are worth."""

from joulelab.analysis.knob_grid import KnobGrid
from joulelab.core.quality import Quality
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.evaluation import evaluate
from joulelab.workloads import WORKLOADS


def scored(grid: KnobGrid) -> tuple[tuple[Quality, ...], ...]:
    """Score the outputs of every case against those of the first that the workload takes.

    Metrics are those that need no download. Scores are kept on disk; a case that cannot run here
    has none.

    Args:
        grid: The cases.

    Returns:
        One tuple for each case; empty if such outputs cannot be scored.
    """
    if grid.workload not in SUBJECTS:
        return ()
    kind = SUBJECTS[grid.workload]
    metrics = [METRICS[name].from_knobs({}) for name in kind.metrics]
    made = [
        WORKLOADS[grid.workload].from_knobs(dict(configuration.knobs)).settings
        for configuration in grid.configurations
    ]
    rows = evaluate(grid.workload, made, metrics, kind.read_data(None))
    return tuple(
        tuple(
            row.quality
            for row in rows
            if row.configuration == case.configuration and row.quality is not None
        )
        for case in grid.cases
    )
