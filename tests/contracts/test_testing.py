"""The suites that authors of plug-ins run, run on what keeps to them and on what does not."""

import pytest

from joulelab.devices.replay import ReplayDevice
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.tabular import MeanModel
from joulelab.searching.strategies.listed import Grid
from joulelab.testing import (
    DeviceContract,
    PowerModelContract,
    StrategyContract,
    WorkloadContract,
)
from joulelab.testing.choosing import small_problem
from joulelab.workloads.program import workload_type


class Adder:
    """Adds."""

    def __init__(self, size: int = 8):
        self.size = size

    def __call__(self):
        return sum(range(self.size))


class TestAProgram(WorkloadContract):
    workload, knobs = Adder, {"size": 4}


def add(size: int = 8):
    return sum(range(size))


class TestAScoredProgram(WorkloadContract):
    workload = type("ScoredAdder", (Adder,), {"quality": lambda self: [0.5] * self.size})


class TestAFunction(WorkloadContract):
    workload = add


class TestASimulatedDevice(DeviceContract):
    device = SimulatedDevice

    @pytest.fixture(autouse=True)
    def _gpu(self, tmp_path):
        fleet("h200_sxm", 1, str(tmp_path))
        type(self).store = str(tmp_path)


class TestTheMean(PowerModelContract):
    model = MeanModel


class TestThePhysics(PowerModelContract):
    model = PhysicsModel


class TestTheGrid(StrategyContract):
    strategy = Grid


class Forgetful(Grid):
    """Never knows when it is done."""

    is_done = False


def test_a_strategy_that_never_ends_fails_its_contract():
    class Suite(StrategyContract):
        strategy = Forgetful

    def make():
        return Forgetful(small_problem(), seed=3)

    with pytest.raises(AssertionError):
        Suite().test_it_asks_for_nothing_twice_and_comes_to_an_end(make)


def test_a_quality_of_ever_other_examples_fails_its_contract():
    sizes = iter((8, 9))
    kind = workload_type(lambda: None, quality=lambda: [0.5] * next(sizes))

    with pytest.raises(AssertionError):
        WorkloadContract().test_its_quality_if_it_has_one_scores_the_same_examples_each_time(
            lambda: kind.from_knobs({})
        )


def test_a_device_that_is_not_whole_fails_its_contract():
    class Suite(DeviceContract):
        device = type("Half", (ReplayDevice.__mro__[1],), {})

    with pytest.raises(AssertionError):
        Suite().test_it_is_whole()
