"""Measure and optimise the energy of GPU programs.

::

    with joulelab.Monitor() as monitor, monitor.window("train") as window:
        train()
    print(window.energy_j, window.energy_u_j)

    print(joulelab.measure(step))               # a call of it, with its error bar
    joulelab.sweep(step, every=8).report("sweep.html")   # over the clocks of the GPU
    print(joulelab.attribute(network, (images,)))        # by component, layer and kernel

The package has no Ray and no MLflow in its import path: everything here runs in
one process on one machine. Distribution lives in :mod:`joulelab_actors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from joulelab.errors import ConfigError

if TYPE_CHECKING:
    from joulelab.attributor import attribute
    from joulelab.core.configuration import Configuration
    from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
    from joulelab.core.energy import EnergyWindow
    from joulelab.core.measurement import Measurement
    from joulelab.core.point import OperatingPoint
    from joulelab.core.procedure import Procedure
    from joulelab.core.trace import PowerTrace
    from joulelab.errors import JouleLabError
    from joulelab.governor.session import govern
    from joulelab.governor.strategy import Rules
    from joulelab.monitor import Monitor, Window, measured
    from joulelab.runner import measure, sweep
    from joulelab.searching.constraints import Constraint
    from joulelab.seeker import search
    from joulelab.study.budget import Budget
    from joulelab.study.lab import Lab
    from joulelab.tracing.program import region
    from joulelab.workloads.base import Workload

__all__ = [
    "Budget",
    "Configuration",
    "Constraint",
    "EnergyWindow",
    "JouleLabError",
    "KernelCost",
    "Lab",
    "Measurement",
    "Monitor",
    "OperatingPoint",
    "PhaseCost",
    "PowerTrace",
    "Procedure",
    "Rules",
    "Window",
    "Workload",
    "WorkloadCost",
    "attribute",
    "govern",
    "measure",
    "measured",
    "region",
    "search",
    "sweep",
]
_HOMES = {
    "Budget": "study.budget",
    "Configuration": "core.configuration",
    "Constraint": "searching.constraints",
    "EnergyWindow": "core.energy",
    "JouleLabError": "errors",
    "KernelCost": "core.cost",
    "Lab": "study.lab",
    "Measurement": "core.measurement",
    "Monitor": "monitor",
    "OperatingPoint": "core.point",
    "PhaseCost": "core.cost",
    "PowerTrace": "core.trace",
    "Procedure": "core.procedure",
    "Rules": "governor.strategy",
    "Window": "monitor",
    "Workload": "workloads.base",
    "WorkloadCost": "core.cost",
    "attribute": "attributor",
    "govern": "governor.session",
    "measure": "runner",
    "measured": "monitor",
    "region": "tracing.program",
    "search": "seeker",
    "sweep": "runner",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: commands start before numpy is there."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"joulelab.{_HOMES[name]}"), name)
    except ImportError as error:
        from joulelab.errors import missing_extra

        if (missing := missing_extra(error)) is None:
            raise
        raise ConfigError(missing) from error
