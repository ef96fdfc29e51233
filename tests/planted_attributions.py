"""Attributions of BLOOM on a simulated A100, and what its kernels truly take."""

from joulelab.attribution.session import Session
from joulelab.core.configuration import Configuration
from joulelab.devices.simulated import fleet
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.device import SimulatedDevice
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS

GPU = "a100_sxm"
KNOBS = {"model": "bloom-560m", "batch": 4, "new_tokens": 16}


def attribute(store, method="auto", knobs=KNOBS, **options):
    device = SimulatedDevice.open(fleet(GPU, 1, str(store))[0])
    settings = WORKLOADS["bloom"].from_knobs(knobs).settings
    found = Session(device, **options).attribute(Configuration.of("bloom", settings), method)
    return found, Board.of(device._driver.seed, GPUS[GPU])
