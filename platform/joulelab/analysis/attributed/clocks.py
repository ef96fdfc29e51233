"""Attributions of one program at several clocks: which component gains from which."""

from collections.abc import Sequence

from rich.table import Table

from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.attribution.attribution import UNEXPLAINED, Attribution, Share
from joulelab.objectives import Objective

Clocks = Sequence[tuple[str, Attribution]]
"""Operating points in words, the driver's own first, and what was found there."""

WHOLE = "all together"
_SURE = 2.0
"""Standard uncertainties by which a component must gain to be said to."""


def clock_table(clocks: Clocks, phase: str, objective: Objective) -> Table:
    """Return a table of the best clock of each component, against the driver's own.

    A component's time is its time on the device; gains within two standard uncertainties are none.
    """
    table = quiet_table(
        *words("component", f"best clock by {objective.label}"),
        *numbers("energy", "time", objective.label),
    )
    own = _shares(clocks[0][1], phase)
    for name in own:
        table.add_row(name, *_cells(clocks, phase, name, objective))
    return table


def _cells(clocks: Clocks, phase: str, name: str, objective: Objective) -> list[str]:
    at = {
        label: shares[name] for label, found in clocks if name in (shares := _shares(found, phase))
    }
    own = next(iter(at.values()))
    best, there = min(at.items(), key=lambda item: _cost(item[1], objective))
    change = _cost(there, objective) / _cost(own, objective) - 1
    doubt = (
        objective.energy_exponent
        * ((there.energy_u_j / there.energy_j) ** 2 + (own.energy_u_j / own.energy_j) ** 2) ** 0.5
    )
    if -change <= _SURE * doubt:
        return ["the driver's own, or none is better", "", "", ""]
    return [
        best,
        f"{there.energy_j / own.energy_j - 1:+.1%}",
        f"{(there.time_s or 0.0) / (own.time_s or 1.0) - 1:+.1%}",
        f"{change:+.1%}",
    ]


def _cost(share: Share, objective: Objective) -> float:
    return objective.cost(share.energy_j, share.time_s or 0.0)


def _shares(found: Attribution, phase: str) -> dict[str, Share]:
    """Return the components that take time and energy, and the whole."""
    one = found.phase(phase)
    whole = Share(name=WHOLE, energy_j=one.energy_j, energy_u_j=one.energy_u_j, time_s=one.time_s)
    parts = [share for share in one.by_component if share.name != UNEXPLAINED]
    return {share.name: share for share in (*parts, whole) if share.energy_j > 0 and share.time_s}
