"""What the estimator answers: time, energy and memory, where they go, and how far to trust it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from joulelab.core.cost import Pipe
from joulelab.core.point import OperatingPoint
from joulelab.estimator.pricing.memory import MemoryEstimate
from joulelab.hardware.processor import Tier

Mode = Literal["eager", "graph", "compiled", "engine"]
"""Kernel by kernel from Python; the same kernels captured once; fused by PyTorch's compiler around
those of libraries; fused by an engine such as TensorRT, whose products take in what follows."""

FUSING: tuple[Mode, ...] = ("compiled", "engine")
"""Modes whose kernels a compiler wrote."""

Bound = Literal["compute", "memory", "launch", "power"]
"""What sets a group's time."""

Component = Literal["compute", "memory", "static"]
"""What energy is spent on: operations, moving data, being on."""

COMPONENTS: tuple[Component, ...] = get_args(Component)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySplit:
    """Energy in three components; the total is their sum.

    Attributes:
        compute_j: Operations and everything that feeds the units.
        memory_j: Moving data in caches and memory.
        static_j: Being powered and clocked, busy or waiting.
    """

    compute_j: float
    memory_j: float
    static_j: float

    def of(self, component: Component) -> float:
        """Return the energy of one component."""
        return float(getattr(self, f"{component}_j"))

    def times(self, factor: float) -> "EnergySplit":
        """Return every component times ``factor``."""
        return EnergySplit(**{f"{name}_j": self.of(name) * factor for name in COMPONENTS})

    @classmethod
    def total(cls, energies: Iterable["EnergySplit"]) -> "EnergySplit":
        """Add ``energies`` up, component by component."""
        found = list(energies)
        return cls(**{f"{name}_j": sum(each.of(name) for each in found) for name in COMPONENTS})

    @property
    def shares(self) -> dict[str, float]:
        """Each component's share of the total; 0 where there is none."""
        total_j = self.total_j
        return {name: self.of(name) / total_j if total_j else 0.0 for name in COMPONENTS}

    @property
    def total_j(self) -> float:
        """All energy."""
        return self.compute_j + self.memory_j + self.static_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One kind of architectural event of a group or of a whole estimate.

    Attributes:
        path: Where it stands in the hierarchy, e.g. ``"compute/tensor cores/mma"``; its first part
            is the component.
        unit: What ``count`` counts: ``"instructions"``, ``"bytes"``, ``"cycles"``.
        energy_j: Its share of the component's energy: all events of a component sum to it.
        raw_j: Count times the unit energy of the literature, from which the shares are taken.
    """

    path: str
    count: float
    unit: str
    energy_j: float
    raw_j: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEstimate:
    """One kernel, or several fused into one.

    Attributes:
        count: How often it runs in one execution of its phase; all figures are for all of them.
        elapsed_s: Share of the latency: time on the device and of waiting for its launch.
        roofline_s: Least time that peak rates allow at the default clock.
        bound: What sets its time.
        clock_mhz: Core clock at which it runs: lower than requested where the power cap binds.
        power_w: Power while it runs; for so short it may exceed the cap, which boards hold over
            many kernels.
        energy: Where its energy goes, waiting included.
    """

    name: str
    module: str
    kind: str
    operators: tuple[str, ...]
    count: int
    flop: Mapping[Pipe, float]
    moved_b: Mapping[str, float]
    device_s: float
    elapsed_s: float
    roofline_s: float
    bound: Bound
    clock_mhz: float
    power_w: float
    energy: EnergySplit
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """How much could run side by side.

    Attributes:
        critical_path: Groups on the longest chain of dependences.
        max_width: Most groups at one depth.
        critical_s: Time on the device of the slowest chain.
    """

    num_groups: int
    critical_path: int
    mean_width: float
    max_width: int
    critical_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEstimate:
    """One phase of a model on a device; figures are for all its executions.

    Attributes:
        roofline_s: Least time that peak rates allow.
        power_w: Mean power, never above the cap.
        peak_power_w: Power of the group that draws most, up to the cap.
        throttled_fraction: Share of the latency in which the power cap holds the clock down.
        waiting_j: Energy of being on while waiting for launches, a part of the static energy.
        unit_share: Share of the latency that the operations take at peak rates, 0..1.
        memory_share: The same of the bytes of main memory.
    """

    phase: str
    work: float
    latency_s: float
    roofline_s: float
    energy: EnergySplit
    power_w: float
    peak_power_w: float
    throttled_fraction: float
    waiting_j: float
    unit_share: float
    memory_share: float
    groups: tuple[GroupEstimate, ...]
    memory: MemoryEstimate
    concurrency: Concurrency
    events: tuple[Event, ...] = ()

    @property
    def time_per_unit_s(self) -> float:
        """Time of one unit of work."""
        return self.latency_s / self.work

    @property
    def energy_per_unit_j(self) -> float:
        """Energy of one unit of work."""
        return self.energy.total_j / self.work

    @property
    def device_share(self) -> float:
        """Share of the latency in which a kernel is on the device, 0..1."""
        return min(1.0, sum(group.device_s for group in self.groups) / self.latency_s)

    @property
    def idle_j(self) -> float:
        """Energy of being on while a kernel runs, for longer than peak rates need."""
        on_device_s = self.device_share * self.latency_s
        unused = max(0.0, 1 - self.roofline_s / on_device_s) if on_device_s else 0.0
        return (self.energy.static_j - self.waiting_j) * unused

    @property
    def bound_shares(self) -> dict[Bound, float]:
        """Share of the time that each bound sets, largest first."""
        return time_shares((group.bound, group.elapsed_s) for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """How far to trust an estimate.

    Attributes:
        tier: A calibrated on this device, B on its class, C datasheet alone, D projected.
        time_error: Held-out mean absolute relative error of time; ``None`` if never compared.
        energy_error: The same of energy.
        num_points: Measurements behind them.
        note: What a reader must know, e.g. that there is no silicon.
        on_unknown_host: Whether the host sets the time, and was not measured; no such answer is A.
    """

    tier: Tier
    time_error: float | None = None
    energy_error: float | None = None
    num_points: int = 0
    note: str = ""
    on_unknown_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRange:
    """What nine of ten programs take over known hosts, or one without and with others on it."""

    latency_s: tuple[float, float]
    energy_j: tuple[float, float]
    disturbed: float | None = None  # share of the time in which others slowed a measured one


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A model on a device.

    Attributes:
        unit: What ``work`` counts.
        device: Key of the processor.
        num_devices: Processors that share the work by tensor parallelism; times are of all,
            energies are summed over them.
        cap_w: Power limit of each processor.
        data_energy_j: Lowest and highest energy that operands' data alone may lead to; the
            estimate is for random-like data, the high end.
        without_formula: Operators that have no cost formula, with their share of all bytes.
        host_range: Where the host sets the time, and is not known or was measured; else ``None``.
    """

    model: str
    unit: str
    device: str
    num_devices: int
    precision: str
    batch: int
    mode: Mode
    point: OperatingPoint
    cap_w: float
    phases: tuple[PhaseEstimate, ...]
    confidence: Confidence
    data_energy_j: tuple[float, float]
    without_formula: Mapping[str, float] = field(default_factory=dict)
    host_range: HostRange | None = None

    @property
    def launch_share(self) -> float:
        """Share of the time in which the device waits for launches, 0..1."""
        return launch_share(self.phases)

    @property
    def latency_s(self) -> float:
        """Time of all phases, one after the other."""
        return sum(phase.latency_s for phase in self.phases)

    @property
    def energy_j(self) -> float:
        """Energy of all phases."""
        return sum(phase.energy.total_j for phase in self.phases)

    @property
    def power_w(self) -> float:
        """Mean power."""
        return self.energy_j / self.latency_s

    @property
    def edp_js(self) -> float:
        """Energy-delay product."""
        return self.energy_j * self.latency_s

    @property
    def fits(self) -> bool:
        """Whether every phase fits the device's memory."""
        return all(phase.memory.fits for phase in self.phases)


def time_shares(parts: Iterable[tuple[Bound, float]]) -> dict[Bound, float]:
    """Return the share of all time that each bound sets, largest first."""
    times: dict[Bound, float] = {}
    for bound, time_s in parts:
        times[bound] = times.get(bound, 0.0) + time_s
    total_s = sum(times.values())
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return {bound: time_s / total_s for bound, time_s in ordered if total_s > 0}


def launch_share(phases: Sequence[PhaseEstimate]) -> float:
    """Return the share of the time of all phases in which the device waits for launches, 0..1."""
    groups = [group for phase in phases for group in phase.groups]
    waits_s = sum(max(0.0, group.elapsed_s - group.device_s) for group in groups)
    return waits_s / sum(phase.latency_s for phase in phases)
