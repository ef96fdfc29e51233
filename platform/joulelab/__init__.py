"""Measure and optimise the energy of GPU programs.

::

    with joulelab.Monitor() as monitor, monitor.window("train") as window:
        train()
    print(window.energy_j, window.energy_u_j)

The package has no Ray and no MLflow in its import path: everything here runs in
one process on one machine. Distribution lives in :mod:`joulelab_actors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from joulelab.core.configuration import Configuration
    from joulelab.core.energy import EnergyWindow
    from joulelab.core.measurement import Measurement
    from joulelab.core.point import OperatingPoint
    from joulelab.core.trace import PowerTrace
    from joulelab.monitor import Monitor, Window, measured

__all__ = [
    "Configuration",
    "EnergyWindow",
    "Measurement",
    "Monitor",
    "OperatingPoint",
    "PowerTrace",
    "Window",
    "measured",
]
_HOMES = {
    "Configuration": "core.configuration",
    "EnergyWindow": "core.energy",
    "Measurement": "core.measurement",
    "Monitor": "monitor",
    "OperatingPoint": "core.point",
    "PowerTrace": "core.trace",
    "Window": "monitor",
    "measured": "monitor",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: commands start before numpy is there."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"joulelab.{_HOMES[name]}"), name)
