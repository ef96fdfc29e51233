"""Boards that differ by one factor here and by another there, which repeats on one do not show.

A power cap holds each board at a clock of its own, so that boards differ in time at the driver's
default and not at a clock that all of them hold. How far that goes shows only where configurations
share more than one board (the interaction of the two-way classification; Searle, "Linear Models",
Wiley 1971).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

import numpy as np

from joulelab.core.additive import AdditiveFit, fit_additive

_LEAST_SHARE = 0.25
"""Of configurations that have to show the interaction, besides the one that ties the boards."""


def fit_on_boards(
    configurations: Sequence[str],
    boards: Sequence[str],
    logarithms: Sequence[float],
    stated_u: Sequence[float],
) -> AdditiveFit:
    """Fit as :func:`fit_additive` does, with scatter that holds how boards differ anew.

    Where few configurations share more than one board, repeats on one board are averaged before,
    as they would hide what those few show. Where none does, nothing tells: the fit is open.
    Arguments and errors are those of :func:`fit_additive`.
    """
    fit = fit_additive(configurations, boards, logarithms, stated_u)
    cells: dict[tuple[str, str], list[int]] = {}
    for place, cell in enumerate(zip(configurations, boards, strict=True)):
        cells.setdefault(cell, []).append(place)
    dof = fit.dof - (len(boards) - len(cells))  # of the interaction alone
    if len(set(boards)) == 1 or dof >= _LEAST_SHARE * (len(fit.configurations) - 1):
        return fit
    averaged = fit_additive(
        [configuration for configuration, _ in cells],
        [board for _, board in cells],
        [float(np.mean([logarithms[i] for i in at])) for at in cells.values()],
        [hypot(*(stated_u[i] for i in at)) / len(at) for at in cells.values()],
    )
    return replace(averaged, is_open=not averaged.dof)
