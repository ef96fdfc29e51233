"""Attributions on simulated GPUs, and what kernels truly take there."""

from dataclasses import replace

from joulelab.attribution.session import Session
from joulelab.attribution.variants import variants_of
from joulelab.core.configuration import Configuration
from joulelab.devices.simulated import fleet
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.device import SimulatedDevice
from joulelab.devices.simulated.store import DriverStore
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS

GPU = "a100_sxm"
KNOBS = {"model": "bloom-560m", "batch": 4, "new_tokens": 16}


def attribute(store, method="auto", knobs=KNOBS, *, contexts=(), vary=None, gpu=GPU, **options):
    device = SimulatedDevice.open(fleet(gpu, 1, str(store))[0])
    settings = WORKLOADS["bloom"].from_knobs(knobs).settings
    asked = Configuration.of("bloom", settings)
    found = Session(device, **options).attribute(asked, method, variants_of(contexts, vary))
    return found, Board.of(device._driver.seed, GPUS[gpu])


PAIR_GPU = "h100_sxm"
PAIR_KNOBS = {"model": "tinyllama", "batch": 32, "tensor_parallel": 2, "new_tokens": 2}


def pair(store):
    """Two boards of which the second needs so much voltage that its clock is held down."""
    drivers = [DriverStore(str(store)).state(at.uuid) for at in fleet(PAIR_GPU, 2, str(store))]
    boards = [
        replace(Board.of(driver.seed, GPUS[PAIR_GPU]), voltage_scale=scale)
        for driver, scale in zip(drivers, (0.95, 1.12), strict=True)
    ]
    lead = SimulatedDevice(drivers[0], board=boards[0])
    return [lead, SimulatedDevice(drivers[1], board=boards[1], clock=lead.clock)], boards


def attribute_pair(store, method="auto", knobs=PAIR_KNOBS):
    (lead, other), boards = pair(store)
    settings = WORKLOADS["llama"].from_knobs(knobs).settings
    session = Session(lead, partners=[other])
    return session.attribute(Configuration.of("llama", settings), method), boards
