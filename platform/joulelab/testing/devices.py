"""What every device keeps to."""

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from joulelab.core.device import DeviceAddress
from joulelab.devices.base import Device
from joulelab.errors import ConfigError, DeviceNotFoundError, DeviceUnsupportedError


class DeviceContract:
    """Tests of one backend on the first device that it finds; nothing is set.

    Attributes:
        device: The class.
        store: Folder of state or recordings, for backends that are not hardware.
    """

    device: ClassVar[Any]
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
        from joulelab.core.point import OperatingPoint

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
