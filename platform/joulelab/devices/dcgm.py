"""An NVIDIA GPU through DCGM's ``dcgmi``, which has an energy counter and unit activities.

Only those two come from DCGM (fields 156 and 1001 to 1008). Everything else comes from
``nvidia-smi``, which is part of every driver: its instant power is faster than DCGM's field
155, and DCGM's own way of setting clocks is application clocks, which NVIDIA has deprecated.
"""

from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from joulelab.core.device import Capabilities, DeviceAddress
from joulelab.devices.base import ActivityProbe
from joulelab.devices.dcgm_activity import DcgmActivities
from joulelab.devices.dcgm_tool import PERIOD_S, answers, entities, parse_row, row_command
from joulelab.devices.smi import SmiDevice
from joulelab.devices.tool import LineStream

ENERGY_FIELD = 156


class DcgmDevice(SmiDevice):
    """One GPU, found by its UUID.

    Args:
        uuid: UUID of the whole GPU, ``"GPU-..."``.

    Raises:
        DeviceNotFoundError: If there is no such GPU; names those that there are.
        DeviceError: If ``dcgmi`` or ``nvidia-smi`` is absent or fails.
    """

    backend: ClassVar[str] = "dcgm"

    def __init__(self, uuid: str) -> None:
        super().__init__(uuid)
        self._entity = entities()[uuid]
        command = row_command(self._entity, [ENERGY_FIELD])
        self._energy = LineStream(command, lambda line: parse_row(line, 1), PERIOD_S)
        self._activities = DcgmActivities(self._entity)

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        return tuple(DeviceAddress(backend=cls.backend, uuid=uuid) for uuid in entities())

    @override
    def read_energy_j(self) -> float:
        """Read the energy counter as DCGM saw it last, at most about 0.1 s ago."""
        self._whole()
        (energy_mj,) = self._energy.latest()
        if energy_mj is None:
            raise self._unsupported("energy counter")
        return energy_mj * 1e-3

    @override
    def activity(self) -> ActivityProbe:
        self._whole()
        if not self.capabilities().has_activity:
            raise self._unsupported("activity counters")
        return self._activities.probe()

    @override
    def close(self) -> None:
        self._energy.stop()
        self._activities.stop()
        super().close()

    @override
    def _find_capabilities(self) -> Capabilities:
        return replace(
            super()._find_capabilities(),
            has_energy_counter=answers(self._entity, ENERGY_FIELD),
            has_activity=self._activities.are_counted(),
        )
