"""What every device and every workload keeps to."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.base import Device
from joulelab.errors import (
    ConfigError,
    DeviceNotFoundError,
    DeviceUnsupportedError,
    UnknownNameError,
)
from joulelab.quality.own import has_quality, own_scores, own_subject
from joulelab.workloads.base import Workload
from joulelab.workloads.program import workload_type

Make = Callable[[], Workload[Any]]


class DeviceContract:
    """Tests of one backend on the first device that it finds; nothing is set."""

    device: ClassVar[Any]  # the class
    # Folder of state or recordings, for backends that are not hardware
    store: ClassVar[str | None] = None

    @pytest.fixture
    def address(self) -> DeviceAddress:
        """Return the first device; without one the tests are skipped."""
        found = self.device.discover(self.store)
        if not found:
            pytest.skip("There is no such device here.")
        address: DeviceAddress = found[0]
        return address

    @pytest.fixture
    def opened(self, address: DeviceAddress) -> Iterator[Device]:
        """Yield the device, open."""
        device: Device = self.device.open(address)
        yield device
        device.close()

    def test_it_is_whole(self) -> None:
        """Nothing that the procedure calls is missing."""
        assert issubclass(self.device, Device)
        assert not inspect.isabstract(self.device)

    def test_it_is_who_it_was_opened_as(self, opened: Device, address: DeviceAddress) -> None:
        """A GPU is known by its UUID."""
        assert opened.identity().uuid == address.uuid

    def test_another_than_those_that_there_are_is_refused(self, address: DeviceAddress) -> None:
        """It must not open the nearest one."""
        absent = DeviceAddress(backend=address.backend, uuid="absent", store=address.store)

        with pytest.raises(DeviceNotFoundError):
            self.device.open(absent)

    def test_power_is_in_watts_and_energy_only_grows(self, opened: Device) -> None:
        """SI units, and no reading that stands for one that failed."""
        assert 0 < opened.read_power_w() < 10_000
        if opened.capabilities().has_energy_counter:
            first = opened.read_energy_j()
            opened.clock.sleep_s(0.3)
            assert opened.read_energy_j() > first

    def test_a_sensor_that_it_lacks_is_refused(self, opened: Device) -> None:
        """Not answered with 0."""
        if opened.capabilities().has_energy_counter:
            pytest.skip("It has the counter.")
        with pytest.raises(DeviceUnsupportedError):
            opened.read_energy_j()

    def test_a_clock_that_is_not_on_its_grid_is_refused(self, opened: Device) -> None:
        """Drivers round silently; results must not."""
        clocks = opened.capabilities().sm_clocks_mhz
        if not clocks:
            pytest.skip("Its clocks cannot be set.")
        with pytest.raises((ConfigError, DeviceUnsupportedError)):
            opened.apply(OperatingPoint(sm_clock_mhz=max(clocks) + 1))

    def test_it_can_be_closed_twice(self, address: DeviceAddress) -> None:
        """Whoever is interrupted closes again."""
        device = self.device.open(address)
        device.close()
        device.close()


class WorkloadContract:
    """Tests of one workload, at a size that the machine of the tests runs in a moment."""

    workload: ClassVar[Any]  # the class, or a callable that is taken for a program
    knobs: ClassVar[Mapping[str, KnobValue]] = {}  # what it is tested with; a small size

    @pytest.fixture
    def make(self) -> Make:
        """Return what makes the workload that is tested."""
        target = vars(type(self)).get("workload")  # not as a method
        kind = workload_type(target.__func__ if isinstance(target, staticmethod) else target)
        return lambda: kind.from_knobs(self.knobs)

    def test_its_phases_have_names_of_their_own(self, make: Make) -> None:
        """Each phase is measured apart, and found by its name."""
        phases = make().phases

        assert phases
        assert len(set(phases)) == len(phases)

    def test_each_phase_does_the_same_positive_work_each_time(self, make: Make) -> None:
        """Energy per unit is energy over work; a program may put several calls into a run."""
        workload = make()
        workload.prepare()

        work = {phase: [workload.run(phase) for _ in range(2)] for phase in workload.phases}

        workload.close()
        for first, second in work.values():
            assert first > 0
            assert second / first in (1, 2)

    def test_it_can_be_closed_twice_and_prepared_again(self, make: Make) -> None:
        """A workload is kept ready from trial to trial, and made again after a failure."""
        workload = make()
        workload.prepare()
        workload.close()
        workload.close()

        workload.prepare()

        assert workload.run(workload.phases[0]) > 0
        workload.close()

    def test_a_run_without_preparation_is_refused(self, make: Make) -> None:
        """What was never prepared would be measured as something else."""
        workload = make()

        with pytest.raises(ConfigError, match="prepared"):
            workload.run(workload.phases[0])

    def test_an_unknown_knob_is_answered_with_the_closest_one(self, make: Make) -> None:
        """A misspelt knob must not be taken for its default."""
        with pytest.raises(UnknownNameError, match="no_such_knob"):
            type(make()).from_knobs({"no_such_knob": 1})

    def test_its_cost_if_it_has_one_names_its_phases_and_its_unit(self, make: Make) -> None:
        """Simulated GPUs play the cost phase by phase."""
        workload = make()
        if not workload.has_cost:
            pytest.skip("It has no cost, so it is measured on real GPUs alone.")

        cost = workload.cost()

        assert tuple(phase.phase for phase in cost.phases) == workload.phases
        assert cost.unit == workload.unit
        assert all(phase.kernels or phase.wait_s for phase in cost.phases)
        assert cost == make().cost()

    def test_its_quality_if_it_has_one_scores_the_same_examples_each_time(self, make: Make) -> None:
        """Configurations are compared example by example."""
        kind = type(make())
        if not has_quality(kind):
            pytest.skip("It has no quality, so it is searched for energy and time alone.")

        first, second = own_scores(make()), own_scores(make())

        assert own_subject(kind.__name__, kind)
        assert np.shape(first) == np.shape(second)
