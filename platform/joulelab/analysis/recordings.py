"""Recordings that are replayed: what counts as an observation, and how observations scatter."""

from collections.abc import Callable, Sequence

from joulelab.core.additive import AdditiveFit
from joulelab.core.measurement import Measurement
from joulelab.core.recorded import Lines, lines_of, scatter_of, with_scatter

Label = Callable[[Measurement], str]
"""Names what is compared: measurements of the same name are repeats of each other."""


def observations(valid: Sequence[Measurement], label: Label) -> list[Measurement]:
    """Keep one measurement of each recording: played again, it is no second observation."""
    kept: dict[object, Measurement] = {}
    for m in valid:
        again = (label(m), m.device.uuid, m.recording)
        kept.setdefault(again if m.recording else m.measurement_id, m)
    return list(kept.values())


def recorded_lines(counted: Sequence[Measurement], label: Label) -> Lines | None:
    """Return the lines along which single observations were made; ``None`` if programs ran."""
    if not all(m.recording for m in counted):
        return None
    return lines_of({label(m): m.configuration for m in counted})


def scattered(fit: AdditiveFit, lines: Lines | None) -> AdditiveFit:
    """Return the fit of single recordings with the scatter that they show along ``lines``."""
    if lines is None or fit.dof:
        return fit
    return with_scatter(fit, scatter_of(fit, lines))
