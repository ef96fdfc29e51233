"""Simulated GPUs and short procedures for tests of actors."""

from contextlib import closing

from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import SimulatedDevice, fleet

STUDY = "test"
QUICK = Procedure(
    idle_s=1.0, settle_s=0.2, warmup_min_s=1.0, warmup_max_s=60.0, window_s=1.0, limit_s=10.0
)
CLOCKS_MHZ = (990, 810, 630, 510, 345)
"""Clocks at which gemm stays below an H200's power limit, so that every trial is valid."""


def simulated_gpus(folder, num_gpus=1):
    return fleet("h200_sxm", num_gpus, str(folder / "driver"))


def site_of(address):
    """Where a simulated GPU is, were it of a cluster."""
    from joulelab_actors.placement import Site

    with closing(SimulatedDevice.open(address)) as device:
        return Site(
            address=address,
            identity=device.identity(),
            capabilities=device.capabilities(),
            node_id="0" * 56,
            hostname="node-7",
        )


def actor_row(uuid):
    """Return what Ray knows of a GPU's actor, its process among it."""
    from ray._private import state

    name = f"joulelab:{uuid}"
    [row] = [a for a in state.actors().values() if a["Name"] == name and a["State"] != "DEAD"]
    return row


def gemm(sm_clock_mhz=None, **knobs):
    point = OperatingPoint(sm_clock_mhz=sm_clock_mhz)
    return Configuration.of("gemm", knobs or None, point)


def trial(sm_clock_mhz=None, repeat=0, **changes):
    configuration = gemm(sm_clock_mhz)
    name = f"{configuration.point.label}-r{repeat}"
    return Trial(study=STUDY, name=name, configuration=configuration, repeat=repeat, **changes)


def trials(repeats=1, clocks_mhz=CLOCKS_MHZ):
    return [trial(clock, repeat) for repeat in range(repeats) for clock in clocks_mhz]
