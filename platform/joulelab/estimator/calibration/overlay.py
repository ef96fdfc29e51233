"""A calibration as the section ``[calibrated]`` of a data file of the catalogue."""

from joulelab.estimator.calibration.fit import Calibration
from joulelab.hardware.scalars import SECTION


def overlay(calibration: Calibration, source: str) -> str:
    """Return the fitted figures as TOML.

    Figures that ran into a bound are left out, as no point identifies them.

    Args:
        calibration: The fit.
        source: On what the figures were measured, for each figure's ``source``.
    """
    told = source.replace('"', "'")
    lines = [
        f'"{figure.name}" = {{ value = {figure.value:.4g}, status = "F", '
        f'source = "{told}; {figure.num_points} points" }}'
        for figure in calibration.figures
        if not figure.at_bound
    ]
    return "\n".join([f"[{SECTION}]", *lines, ""])
