"""Which kernels matter enough to be replayed, before anything is known of their energy."""

from collections.abc import Iterable, Mapping

from joulelab.core.cost import KernelCost

COVERED = 0.997
"""Share of the energy above static, as roughly known, that replayed kernels cover."""
_FLOP_J, _BYTE_J, _LAUNCH_J = 5e-13, 1e-10, 1.2e-5
"""What an H100 takes above static power, roughly, to tell which kernels matter: a replayed kernel
of a microsecond takes 12 uJ however little it does."""


def rough_j(cost: KernelCost) -> float:
    """Return the energy above static of a launch, roughly."""
    return cost.flop * _FLOP_J + cost.dram_b * _BYTE_J + _LAUNCH_J


def that_matter(phases: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names that cover :data:`COVERED` of the energy of every phase."""
    kept: dict[str, None] = {}
    for joules in phases:
        left_j = (1 - COVERED) * sum(joules.values())
        for name in sorted(joules, key=lambda name: joules[name]):
            left_j -= joules[name]
            if left_j < 0:
                kept[name] = None
    return list(kept)
