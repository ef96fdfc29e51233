"""GPUs that exist only in arithmetic, behind a driver's face."""

from joulelab.devices.simulated.device import SimulatedDevice, fleet
from joulelab.devices.simulated.faults import Fault
from joulelab.devices.simulated.store import DriverState, DriverStore

__all__ = ["DriverState", "DriverStore", "Fault", "SimulatedDevice", "fleet"]
