"""Which kernels a phase launches, for whom, and how long each is on the device."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from joulelab.core.cost import KernelCost
from joulelab.tracing.program import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """One operator call that launches a kernel, or several that always go together."""

    operator: Operator
    kernel: str  # name of the distinct kernel: alike in operator, shapes, strides and formats
    device_s: float  # time on the device as it ran within the program, in seconds
    launched: tuple[str, ...] = ()  # kernels as the driver names them; empty where unknown
    # Of a sum over ranks, its time in each execution that was profiled, in seconds.
    each_s: tuple[float, ...] = ()
    waits_in: str = ""  # the sum's kernel where it only waits there for other ranks
    # Time in which it draws power beside the kernels, as links do that stay awake; in seconds.
    beside_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProfile:
    """One execution of a phase's program."""

    phase: str
    # Executions of the program in one execution of the phase, such as the steps of a decode.
    executions: int
    unit: str
    work: float  # units that one execution of the program does
    calls: tuple[KernelCall, ...]  # in the order in which they ran
    stray_s: float = 0.0  # time on the device of kernels that no call of an operator launched
    notes: tuple[str, ...] = ()  # what could not be determined, in sentences

    @property
    def busy_s(self) -> float:
        """Time on the device of all kernels."""
        return sum(call.device_s for call in self.calls) + self.stray_s


def main_phases(profiles: Iterable[PhaseProfile]) -> Mapping[str, str]:
    """Return the phase of each distinct kernel in which it takes the largest share of the time.

    One that several phases launch, at clocks of their own, has one price: that of this phase.
    """
    shares: dict[str, tuple[float, str]] = {}
    for profile in profiles:
        taken_s: dict[str, float] = {}
        for call in profile.calls:
            taken_s[call.kernel] = taken_s.get(call.kernel, 0.0) + call.device_s
        busy_s = sum(taken_s.values())
        for name, seconds in taken_s.items():
            share = seconds / busy_s if busy_s else 0.0
            if name not in shares or share > shares[name][0]:
                shares[name] = share, profile.phase
    return {name: phase for name, (_, phase) in shares.items()}


def kernel_name(operator: Operator, signature: object) -> str:
    """Return the name of the distinct kernel of a call: readable, and unlike any other's."""
    digest = sha256(repr(signature).encode()).hexdigest()[:8]
    shape = operator.shape
    size = "" if shape is None else f" {shape.batch}x{shape.m}x{shape.n}x{shape.k}"
    return f"{operator.name}{size} {digest}"


def cost_name(operator: Operator, cost: KernelCost) -> str:
    """Return the name of the distinct kernel of a call that is known by its cost alone."""
    return kernel_name(operator, (operator.name, cost))


MOST_NAMED = 3
"""Kernels that a note names."""
SPARSE_S = 0.01
"""Between sums that keep links awake: those of an H100 do not sleep within 50 ms, and the sums
themselves take some 15 us (experiments/results/h100_links, h100_attribution)."""

COVERED = 0.997
"""Share of the energy above static, as roughly known, that replayed kernels cover."""
_FLOP_J, _BYTE_J, _LAUNCH_J = 5e-13, 1e-10, 1.2e-5
"""What an H100 takes above static power, roughly, to tell which kernels matter: a replayed kernel
of a microsecond takes 12 uJ however little it does."""


def rough_j(cost: KernelCost) -> float:
    """Return the energy above static of a launch, roughly."""
    return cost.flop * _FLOP_J + cost.dram_b * _BYTE_J + _LAUNCH_J


def that_matter(phases: Iterable[Mapping[str, float]], covered: float = COVERED) -> list[str]:
    """Return the names that cover a share of the energy of every phase."""
    kept: dict[str, None] = {}
    for joules in phases:
        left_j = (1 - covered) * sum(joules.values())
        for name in sorted(joules, key=lambda name: joules[name]):
            left_j -= joules[name]
            if left_j < 0:
                kept[name] = None
    return list(kept)
