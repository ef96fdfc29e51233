"""A GPU that takes part in a study, and what may be asked of it."""

import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from joulelab.core.bounds import check_range
from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity
from joulelab.devices import DEVICES
from joulelab.errors import ConfigError
from joulelab.hardware.catalogue import spec_of_boards


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyGpu:
    """A GPU, what it can be asked and told, and the machine that it is in.

    With ``partners``, others of that machine, it leads the GPUs that run a trial together.
    """

    address: DeviceAddress
    identity: DeviceIdentity
    capabilities: Capabilities
    hostname: str
    partners: tuple[DeviceAddress, ...] = ()

    @classmethod
    def of(cls, address: DeviceAddress) -> "StudyGpu":
        """Ask the device at ``address``, on this machine, what it is."""
        with closing(DEVICES[address.backend].open(address)) as device:
            return StudyGpu(
                address=address,
                identity=device.identity(),
                capabilities=device.capabilities(),
                hostname=socket.gethostname(),
            )

    @property
    def uuid(self) -> str:
        """UUID of the GPU."""
        return self.address.uuid


def study_clocks_mhz(gpus: Sequence[StudyGpu]) -> tuple[int, ...]:
    """Return the SM clocks that studies of this GPU sweep: those of the catalogue, else all."""
    first = gpus[0]
    spec = spec_of_boards(first.identity.name)
    settable = first.capabilities.sm_clocks_mhz
    if spec is None:
        return settable
    return tuple(clock for clock in spec.study_clocks_mhz if clock in settable)


def check_power_limits(power_limits_w: Sequence[float], gpus: Sequence[StudyGpu]) -> None:
    """Refuse power limits that one of the GPUs cannot be set to.

    Raises:
        ConfigError: Says which can be set.
    """
    for gpu in gpus if power_limits_w else ():
        bounds_w = gpu.capabilities.power_limits_w
        if bounds_w is None:
            raise ConfigError(
                f"The power limit of {gpu.uuid} is fixed; leave out --power-limits-w."
            )
        for power_limit_w in power_limits_w:
            check_range(f"A power limit of {gpu.uuid}, in W,", power_limit_w, *bounds_w)
