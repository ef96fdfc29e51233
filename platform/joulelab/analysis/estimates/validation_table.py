"""How far estimates are from measurements, for the terminal."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from joulelab.analysis.quantities import quantity
from joulelab.estimator.estimate import Confidence
from joulelab.estimator.validation.compare import Comparison, Summary, Validation, summary


def validation_sentence(found: Validation) -> str:
    """Say how far all estimates together are off."""
    whole = summary(found.comparisons)
    said = f"{whole.num_points} runs compared, {len(found.rejected)} not"
    errors = [
        f"{error:.1%} of {name}"
        for name, error in (("time", whole.time_mape), ("energy", whole.energy_mape))
        if error is not None
    ]
    return f"{said}: mean error {' and '.join(errors)}." if errors else f"{said}."


def summaries_table(found: Sequence[Summary]) -> Table:
    """Lay out the errors of each source and device."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("source", overflow="fold")
    table.add_column("device", no_wrap=True)
    heads = ("points", "time\nmean", "\nmedian", "energy\nmean", "\nmedian", "share\nof wall")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for one in found:
        errors = (one.time_mape, one.time_median, one.energy_mape, one.energy_median)
        shares = [_share(error) for error in (*errors, one.largest_share_of_wall)]
        table.add_row(*one.label, str(one.num_points), *shares)
    table.caption_justify = "left"
    table.caption = (
        "Mean and median of absolute relative errors. Share of wall: the largest predicted share "
        "of a whole host's energy, which must stay below 100 %."
    )
    return table


def points_table(found: Sequence[Comparison]) -> Table:
    """Lay out every point, measured and predicted."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", overflow="fold")
    for head in ("measured", "predicted", "error", "measured", "predicted", "error"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in found:
        time = _pair(one.run.time_s, one.predicted.time_s, one.time_error, "s")
        energy = _pair(one.run.energy_j, one.predicted.energy_j, one.energy_error, "J")
        table.add_row(one.run.name, *time, *energy)
    return table


def known_table(known: Mapping[str, Confidence]) -> Table:
    """Lay out the tier of every device, with its errors where it was compared."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("device", no_wrap=True)
    table.add_column("tier", justify="center")
    for head in ("time error", "energy error", "points"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for key, one in known.items():
        points = str(one.num_points) if one.num_points else ""
        errors = _share(one.time_error), _share(one.energy_error)
        table.add_row(key, one.tier, *errors, points, one.note)
    return table


def _pair(
    measured: float | None, predicted: float, error: float | None, unit: str
) -> tuple[str, str, str]:
    if measured is None:
        return "", "", ""
    said = "" if error is None else f"{error:+.0%}"
    return quantity(measured, unit, digits=3), quantity(predicted, unit, digits=3), said


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
