"""What a calibration found, for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from joulelab.analysis.quantities import quantity
from joulelab.estimator.calibration.fit import Calibration, FittedFigure, Residual

_MOST = 30


def calibration_sentence(found: Calibration) -> str:
    """Say how well the fitted device agrees with what was measured on it."""
    fitted = sum(one.fitted for one in found.residuals)
    return (
        f"{found.processor.product_name}: {len(found.figures)} figures fitted to {fitted} of "
        f"{len(found.residuals)} micro-benchmarks; mean error {found.time_error:.1%} of time and "
        f"{found.energy_error:.1%} of energy. These points were fitted to: what estimates are "
        "worth is for networks to say (joulelab validate)."
    )


def figures_table(figures: Sequence[FittedFigure]) -> Table:
    """Lay out every fitted figure, before and after."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for head in ("before", "fitted", "points"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        said = "at its bound: not identified" if figure.at_bound else ""
        values = [f"{value:.4g}" for value in (figure.before, figure.value)]
        table.add_row(figure.name, *values, str(figure.num_points), said)
    return table


def residuals_table(found: Calibration) -> Table:
    """Lay out the points that agree least."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title, table.title_justify = "Micro-benchmarks that agree least", "left"
    table.add_column("micro-benchmark", no_wrap=True)
    for head in ("measured", "time error", "energy error"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for one in sorted(found.residuals, key=_worst, reverse=True)[:_MOST]:
        energy = "" if one.energy_error is None else f"{one.energy_error:+.1%}"
        measured = quantity(one.anchor.time_s, "s", digits=3)
        said = "" if one.fitted else "not fitted to"
        table.add_row(one.anchor.name, measured, f"{one.time_error:+.1%}", energy, said)
    return table


def _worst(one: Residual) -> float:
    return max(abs(one.time_error), abs(one.energy_error or 0.0))
