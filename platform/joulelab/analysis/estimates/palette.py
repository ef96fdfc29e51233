"""Colours of what an estimate is divided into, from the palette of all plots."""

from collections.abc import Mapping

from joulelab.analysis.style import BEST, CAPPED, CURVE, EQUAL, MUTED
from joulelab.estimator.estimate import Bound

COMPONENT_INKS: Mapping[str, str] = {"compute": CURVE, "memory": EQUAL, "static": CAPPED}

BOUND_INKS: Mapping[Bound, str] = {
    "compute": CURVE,
    "memory": EQUAL,
    "launch": MUTED,
    "power": BEST,
}
