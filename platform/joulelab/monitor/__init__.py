"""Energy of windows in a program that goes on: nobody announces their edges."""

from joulelab.monitor.monitor import Measured, Monitor, measured
from joulelab.monitor.window import CpuUse, GpuUse, Window

__all__ = ["CpuUse", "GpuUse", "Measured", "Monitor", "Window", "measured"]
