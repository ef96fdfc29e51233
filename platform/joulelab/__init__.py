"""Measure and optimise the energy of GPU programs.

::

    with joulelab.Monitor() as monitor, monitor.window("train") as window:
        train()
    print(window.energy_j, window.energy_u_j)

The package has no Ray and no MLflow in its import path: everything here runs in
one process on one machine. Distribution lives in :mod:`joulelab_actors`.
"""

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
