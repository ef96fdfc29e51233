"""GPUs behind one interface."""

from joulelab.devices.base import Device
from joulelab.registry import Registry

DEVICES: Registry[type[Device]] = Registry(
    "device",
    {
        "nvml": "joulelab.devices.nvml:NvmlDevice",
        "smi": "joulelab.devices.smi:SmiDevice",
        "dcgm": "joulelab.devices.dcgm:DcgmDevice",
        "simulated": "joulelab.devices.simulated:SimulatedDevice",
        "replay": "joulelab.devices.replay:ReplayDevice",
    },
    group="joulelab.devices",
    base=Device,
)
