"""What a window of a program used."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from joulelab.core.energy import EnergySource
from joulelab.core.measurement import Finding, InvalidReason
from joulelab.errors import MeasurementError

VOIDING: frozenset[InvalidReason] = frozenset(
    {
        "counter_reset",
        "device_lost",
        "foreign_process",
        "sample_gap",
        "sources_disagree",
        "too_short",
        "unsupported",
    }
)
"""Findings with which the energy is not known, or not this program's. With others it was what it
was, though the GPU was throttled or held at a clock that nobody here asked for."""


_NO_GPU = "No GPU was watched, so there is no energy; name one."


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What one GPU used in a window.

    Attributes:
        uuid: The GPU.
        name: Its product name.
        duration_s: Length of the window on the GPU's clock, in seconds.
        known_energy_j: Energy in joules; ``None`` where a finding voids it. Prefer
            :attr:`energy_j`, which says why.
        known_energy_u_j: Its standard uncertainty (k = 1) from the reading alone; some 5 % between
            boards, the sensor's own class, are not in it.
        source: Where it came from; ``None`` where it is not known.
        peak_power_w: Highest power sample, in watts; ``None`` where energy is not known.
        seen: Whether this program was seen to hold the GPU, which is looked for once a second.
        sm_clock_mhz: Median SM clock while kernels ran, or of all the time if none did; ``None`` if
            unread.
        temperature_c: Highest temperature, in degrees Celsius; ``None`` if unread.
        memory_used_b: Most device memory in use, in bytes; ``None`` if unread.
        findings: What was not as it should be; empty if all was.
    """

    uuid: str
    name: str
    duration_s: float
    known_energy_j: float | None
    known_energy_u_j: float | None
    source: EnergySource | None
    peak_power_w: float | None = None
    seen: bool = False
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    memory_used_b: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the energy is known."""
        return self.known_energy_j is not None

    @property
    def energy_j(self) -> float:
        """Energy, in joules.

        Raises:
            MeasurementError: If it is not known; says why.
        """
        return self._known(self.known_energy_j)

    @property
    def energy_u_j(self) -> float:
        """Standard uncertainty of :attr:`energy_j`, in joules; raises as that does."""
        return self._known(self.known_energy_u_j)

    @property
    def power_w(self) -> float:
        """Mean power, in watts; raises as :attr:`energy_j` does."""
        return self.energy_j / self.duration_s

    @property
    def reason(self) -> str:
        """Why the energy is not known; empty if it is."""
        if self.valid:
            return ""
        reasons = "; ".join(str(each) for each in self.findings if each.reason in VOIDING)
        return f"What {self.uuid} used is not known: {reasons}"

    def _known(self, value: float | None) -> float:
        if value is None:
            raise MeasurementError(self.reason)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTotals:
    """What several GPUs used together."""

    energy_j: float
    energy_u_j: float
    power_w: float

    @classmethod
    def of(cls, gpus: Iterable[GpuUse]) -> "GpuTotals":
        """Add up what GPUs used.

        Raises:
            MeasurementError: If that of one is not known, or there is none; says why.
        """
        uses = tuple(gpus)
        if not uses:
            raise MeasurementError(_NO_GPU)
        return cls(
            energy_j=sum(use.energy_j for use in uses),
            energy_u_j=float(sum(use.energy_u_j**2 for use in uses) ** 0.5),
            power_w=sum(use.power_w for use in uses),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """What the processors of the machine used in a window, all programs together.

    Attributes:
        known_package_j: Energy of the packages, in joules; ``None`` where it cannot be read.
        known_dram_j: Energy of their memory, in joules; likewise.
        reason: Why not, where it cannot.
    """

    known_package_j: float | None = None
    known_dram_j: float | None = None
    reason: str = ""

    @property
    def package_j(self) -> float:
        """Energy of the processor packages, in joules.

        Raises:
            MeasurementError: If it cannot be read; says why.
        """
        if self.known_package_j is None:
            raise MeasurementError(self.reason)
        return self.known_package_j

    @property
    def dram_j(self) -> float:
        """Energy of the machine's memory, in joules; raises as :attr:`package_j` does."""
        if self.known_dram_j is None:
            raise MeasurementError(self.reason or "These processors do not tell of their memory.")
        return self.known_dram_j


class Window:
    """A stretch of a program, begun and ended by it.

    It costs the program a few microseconds; what it used is found when it is asked for, which
    waits for the sensors to have passed the end (some 20 to 100 ms after it).

    Attributes:
        name: As given by who began it.
        duration_s: Length on the machine's clock, in seconds; ``None`` while it is open.
    """

    def __init__(self, name: str, settle: Callable[["Window"], None]) -> None:
        self.name = name
        self.duration_s: float | None = None
        self._settle = settle
        self._gpus: Mapping[str, GpuUse] | None = None
        self._cpu = CpuUse(reason="The window is open.")

    @property
    def gpus(self) -> Mapping[str, GpuUse]:
        """What each GPU used, by UUID.

        Raises:
            ConfigError: While the window is open.
        """
        if self._gpus is None:
            self._settle(self)
        return self._gpus or MappingProxyType({})

    @property
    def cpu(self) -> CpuUse:
        """What the processors used."""
        return self._cpu

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was not as it should be, on any GPU."""
        return tuple(dict.fromkeys(f for use in self.gpus.values() for f in use.findings))

    @property
    def valid(self) -> bool:
        """Whether the energy of every GPU is known; not without any."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why the energy of all GPUs is not known; empty if it is."""
        if not self.gpus:
            return _NO_GPU
        return "; ".join(use.reason for use in self.gpus.values() if not use.valid)

    @property
    def energy_j(self) -> float:
        """Energy of all GPUs, in joules.

        Raises:
            MeasurementError: If that of one is not known, or none was watched; says why.
        """
        return GpuTotals.of(self.gpus.values()).energy_j

    @property
    def energy_u_j(self) -> float:
        """Standard uncertainty of :attr:`energy_j`, in joules; raises as that does."""
        return GpuTotals.of(self.gpus.values()).energy_u_j

    @property
    def power_w(self) -> float:
        """Mean power of all GPUs, in watts; raises as :attr:`energy_j` does."""
        return GpuTotals.of(self.gpus.values()).power_w

    def fill(self, gpus: Mapping[str, GpuUse]) -> None:
        """Take in what was found; for the monitor."""
        self._gpus = MappingProxyType(dict(gpus))

    def close(self, duration_s: float, cpu: CpuUse) -> None:
        """Note that it has ended; for the monitor."""
        self.duration_s, self._cpu = duration_s, cpu

    def __repr__(self) -> str:
        if self.duration_s is None:
            return f"<Window {self.name!r}, open>"
        if self._gpus is None or not self.valid:
            return f"<Window {self.name!r}, {self.duration_s:.3f} s>"
        energy_j, u_j = self.energy_j, self.energy_u_j
        return f"<Window {self.name!r}, {self.duration_s:.3f} s, {energy_j:.2f} ± {u_j:.2f} J>"
