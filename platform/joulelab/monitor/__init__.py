"""Energy of windows in a program that goes on: nobody announces their edges."""

from joulelab.monitor.decorator import Measured, measured
from joulelab.monitor.monitor import Monitor
from joulelab.monitor.window import CpuUse, GpuUse, Window

__all__ = ["CpuUse", "GpuUse", "Measured", "Monitor", "Window", "measured"]
