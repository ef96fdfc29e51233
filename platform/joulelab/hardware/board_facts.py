"""What was measured once of one board in one machine: a file, and whether it is of what is used."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from joulelab.core.codec import from_json, to_json
from joulelab.core.device import DeviceIdentity
from joulelab.core.procedure import Procedure
from joulelab.errors import ConfigError, TrackingError
from joulelab.hardware.processor import Figure
from joulelab.hardware.spec import GpuSpec

SCHEMA = 1
_OPERATORS, _PYTHON = "operator_s.", "python.module_s"
DISTURBED_SHARE = "others.disturbed_share"
"""Share of the time in which others slowed a host's cores, which its other figures leave out."""
_SURE = 2.0
"""Standard uncertainties beyond which a delay is distinguished from none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One figure, its name with its unit as a suffix, or why there is none."""

    name: str
    value: float | None = None
    u: float | None = None  # standard uncertainty
    reason: str = ""  # why it could not be measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPoint:
    """What a load took at one locked clock."""

    load: str
    sm_clock_mhz: int
    power_w: float
    power_u_w: float
    rate_per_s: float  # units of work a second


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFacts:
    """What calibrating gave; ``schema`` is the version of the file."""

    schema: int
    device: DeviceIdentity
    host: str  # name of the machine
    measured_at: str
    joulelab_version: str
    facts: tuple[Fact, ...]
    curve: tuple[ClockPoint, ...] = ()

    def value(self, name: str) -> float | None:
        """Return a figure; ``None`` if it could not be measured, or this version has none."""
        return next((each.value for each in self.facts if each.name == name), None)

    @property
    def has_host(self) -> bool:
        """Whether it says what launching takes in the board's machine."""
        return self.value(_PYTHON) is not None

    @property
    def has_curve(self) -> bool:
        """Whether it says what two loads take over clocks, which an observer cannot measure."""
        return len({point.load for point in self.curve}) > 1

    def on(self, spec: GpuSpec) -> GpuSpec:
        """Return what the catalogue says of the board's product, with what was measured instead."""
        sections: dict[str, Any] = {}
        for name, value in self.figures(spec.memory_bandwidth_b_per_s).items():
            section, _, figure = name.partition(".")
            known = sections.get(section, getattr(spec, section))
            sections[section] = replace(known, **{figure: value})
        return replace(spec, **sections)

    def figures(self, memory_bandwidth_b_per_s: float) -> dict[str, float]:
        """Return what was measured of the catalogue's figures, by dotted name.

        ``memory_bandwidth_b_per_s`` is the peak, of which the memory reaches a share.
        """
        b_per_s = self.value("memory_b_per_s")
        reached = None if b_per_s is None else min(1.0, b_per_s / memory_bandwidth_b_per_s)
        found = {
            "voltage.ridge_mhz": self.value("ridge_mhz"),
            "power.idle_w": self.value("resting_power_w"),
            "sensor.energy_tick_s": self.value("counter_tick_s"),
            "timing.memory_efficiency": reached,
        }
        return {name: value for name, value in found.items() if value is not None}

    def adapted(self, procedure: Procedure) -> Procedure:
        """Return ``procedure`` with waits for the board's sensors, where it names none.

        A sample that is a mean over its period is half of that late, and needs no wait; nor does a
        delay that is not distinguished from that.
        """
        lag = next((each for each in self.facts if each.name == "sample_lag_s"), None)
        if lag is None or lag.value is None or procedure.sample_lag_s:
            return procedure
        late_s = lag.value - (self.value("sample_period_s") or 0.0) / 2
        is_late = late_s > _SURE * (lag.u or 0.0)
        return replace(procedure, sample_lag_s=min(late_s, 1.0)) if is_late else procedure

    def check(self, device: DeviceIdentity, host: str) -> None:
        """Refuse another board, driver or host than was measured, by a ConfigError."""
        if differences := list(self._differences(device, host)):
            raise ConfigError(
                f"The calibration must be of the board, driver and host that are used, but "
                f"{', '.join(differences)}; calibrate anew: joulelab calibrate --board."
            )

    def _differences(self, device: DeviceIdentity, host: str) -> Iterator[str]:
        for what, was, now in (
            ("board", self.device.uuid, device.uuid),
            ("driver", self.device.driver_version, device.driver_version),
            ("VBIOS", self.device.vbios_version, device.vbios_version),
            ("host", self.host, host),
        ):
            if was != now:
                yield f"{what} was {was} and is {now}"


def board_text(facts: BoardFacts) -> str:
    """Return the text of the file of ``facts``."""
    return to_json(facts) + "\n"


def read_board_facts(path: Path) -> BoardFacts:
    """Read a file of ``joulelab calibrate --board``; ConfigError, and why, if it is none."""
    try:
        found = from_json(BoardFacts, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TrackingError) as error:
        raise ConfigError(
            f"{path} must be a file that joulelab calibrate --board wrote: {error}"
        ) from error
    if found.schema != SCHEMA:
        raise ConfigError(
            f"{path} must be of version {SCHEMA}, got {found.schema}; calibrate the board anew."
        )
    return found


def host_figures(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Figure]]:
    """Return a host's values by section, and figures by name; ConfigError if a file has none."""
    found = read_board_facts(path)
    known = {each.name: each.value for each in found.facts if each.value is not None}
    operator_s = {
        name.removeprefix(_OPERATORS): value
        for name, value in known.items()
        if name.startswith(_OPERATORS)
    }
    if not operator_s or _PYTHON not in known:
        raise ConfigError(
            f"{path} does not say what launching takes in its machine: calibrate the board where "
            "PyTorch sees it, or take joulelab calibrate --host."
        )
    source = f"measured on {found.host}, {found.measured_at}"
    figures = {
        name: Figure(value=value, status="S", source=source)
        for name, value in known.items()
        if name in (_PYTHON, DISTURBED_SHARE) or name.startswith(_OPERATORS)
    }
    return {"operator_s": operator_s, "python": {"module_s": known[_PYTHON]}}, figures
