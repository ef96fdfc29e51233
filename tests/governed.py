"""Loads on simulated GPUs, under a governor, and what became of them by the simulator's account."""

from dataclasses import dataclass

from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.devices.simulated.board import Board
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.loads import SimulatedLoad, stages_of
from joulelab.governor.strategy import Rules


@dataclass
class Governed:
    """A load that was played, and who governed it."""

    device: SimulatedDevice
    load: SimulatedLoad
    governor: Governor | None
    duration_s: float
    energy_j: float

    @property
    def units_s(self):
        """Time of an execution of each phase."""
        times_s = dict.fromkeys(self.load.work, 0.0)
        for spell in self.load.spells:
            times_s[spell.phase] += spell.stop_s - spell.start_s
        return {phase: times_s[phase] / work for phase, work in self.load.work.items() if work}

    def work_s(self, default):
        """Time that the work took by default."""
        return sum(work * default.units_s[phase] for phase, work in self.load.work.items() if work)

    def slowdown(self, default):
        return self.duration_s / self.work_s(default) - 1

    def saving(self, default):
        """Share of the energy per work that was saved."""
        return 1 - self.energy_j / self.work_s(default) * default.duration_s / default.energy_j


def rules_of(**changes):
    """Rules by which looks are never thinned out: they take real CPU time, and time is virtual."""
    return Rules(**{"cpu_budget": 1.0, **changes})


def play(folder, load, strategy=None, *, gpu="h200_sxm", duration_s=60.0, faults=(), **rules):
    """Play a load on a fresh board, in virtual time."""
    driver = DriverStore(folder).create(gpu, 0)
    driver.reset()
    driver.clear_faults()
    driver.inject(*faults)
    device = SimulatedDevice(driver)
    stages = stages_of(load) if isinstance(load, str) else load
    board = Board.of(driver.seed, driver.spec)
    played = SimulatedLoad(device, stages, seed=1, board=board)
    governor = None
    if strategy is not None:
        asked = rules_of(**{"off_share": 0.0, **rules})
        chosen = STRATEGIES[strategy](asked)
        chosen.watch(played)
        governor = Governor(device, OwnControl(device), chosen, asked).start()
    start_j = device.read_energy_j()
    start_s = device.clock.now_s()
    played.play(duration_s)
    elapsed_s = device.clock.now_s() - start_s
    energy_j = device.read_energy_j() - start_j
    if governor is not None:
        governor.stop()
        governor.raise_if_failed()
    return Governed(device, played, governor, elapsed_s, energy_j)
