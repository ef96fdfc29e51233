"""The energy of a phase along the network: a stack of components for each part of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

from joulelab.analysis.estimates.palette import COMPONENT_INKS
from joulelab.analysis.quantities import quantity, si_scale
from joulelab.analysis.style import INK, MUTED, RC, tidy
from joulelab.estimator.estimate import EnergySplit, GroupEstimate, PhaseEstimate

MAX_PARTS = 22
OUTSIDE = "outside of modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Kernels of one part of a network.

    Attributes:
        name: Dotted path of its module, cut so that there are not too many parts.
        energy: Of all of them.
        elapsed_s: Time of all of them.
        num_groups: How many they are.
    """

    name: str
    energy: EnergySplit
    elapsed_s: float
    num_groups: int


def parts(phase: PhaseEstimate, *, max_parts: int = MAX_PARTS) -> list[Part]:
    """Sum the groups of ``phase`` by module, in the order in which modules first run.

    Paths are cut at some depth, and layers that are told apart by numbers put together as
    ``layers.*``, so that there are most parts but not more than ``max_parts``; if even the first
    names are too many, those that need least energy are put together.
    """
    deepest = max((_depth(group) for group in phase.groups), default=1)
    cuts = [
        _by_module(phase.groups, depth, starred=starred)
        for depth in range(deepest, 0, -1)
        for starred in (False, True)
    ]
    fine = [found for found in cuts if len(found) <= max_parts]
    return max(fine, key=len) if fine else _with_rest(cuts[-1], max_parts)


def stack_figure(phase: PhaseEstimate) -> Figure:
    """Draw the energy of each part of ``phase`` as a stack of its components."""
    found = parts(phase)
    factor, prefix = si_scale([max(part.energy.total_j for part in found)])
    with mpl.rc_context(RC):
        figure = Figure(figsize=(11, 1.1 + 0.27 * len(found)))
        axes = figure.subplots()
        high = 0.55 / figure.get_figheight()
        room = min(0.3, 0.03 + 0.0068 * max(len(part.name) for part in found))
        figure.subplots_adjust(left=room, right=0.97, top=1 - 1.2 * high, bottom=high)
        tidy(axes, f"Energy along {phase.phase}", "", f"{prefix}J")
        rows = range(len(found))
        left = [0.0] * len(found)
        for name, ink in COMPONENT_INKS.items():
            values = [getattr(part.energy, f"{name}_j") * factor for part in found]
            axes.barh(rows, values, left=left, color=ink, height=0.72, label=name)
            left = [a + b for a, b in zip(left, values, strict=True)]
        total_j = phase.energy.total_j
        for row, (part, end) in enumerate(zip(found, left, strict=True)):
            said = f"{quantity(part.energy.total_j, 'J', digits=3)}, {_share(part, total_j)}"
            axes.annotate(said, (end, row), xytext=(5, 0), textcoords="offset points", va="center",
                          color=MUTED, fontsize=8)  # fmt: skip
        axes.set_yticks(rows, [part.name for part in found], color=INK)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(0, 1.14 * max(left))
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
    return figure


def _share(part: Part, total_j: float) -> str:
    return f"{part.energy.total_j / total_j:.0%}"


def _depth(group: GroupEstimate) -> int:
    return group.module.count(".") + 1


def _by_module(groups: Sequence[GroupEstimate], depth: int, *, starred: bool) -> list[Part]:
    named: dict[str, list[GroupEstimate]] = {}
    for group in groups:
        path = group.module.split(".")[:depth]
        parts = ["*" if starred and part.isdigit() else part for part in path]
        name = ".".join(parts) or OUTSIDE
        named.setdefault(name, []).append(group)
    return [_part(name, members) for name, members in named.items()]


def _part(name: str, groups: Sequence[GroupEstimate]) -> Part:
    return Part(
        name=name,
        energy=_sum(group.energy for group in groups),
        elapsed_s=sum(group.elapsed_s for group in groups),
        num_groups=len(groups),
    )


def _sum(energies: Iterator[EnergySplit]) -> EnergySplit:
    found = list(energies)
    return EnergySplit(
        compute_j=sum(energy.compute_j for energy in found),
        memory_j=sum(energy.memory_j for energy in found),
        static_j=sum(energy.static_j for energy in found),
    )


def _with_rest(found: Sequence[Part], max_parts: int) -> list[Part]:
    costliest = sorted(found, key=lambda part: -part.energy.total_j)[: max_parts - 1]
    kept = [part for part in found if part in costliest]
    rest = [part for part in found if part not in costliest]
    return [
        *kept,
        Part(
            name=f"{len(rest)} others",
            energy=_sum(part.energy for part in rest),
            elapsed_s=sum(part.elapsed_s for part in rest),
            num_groups=sum(part.num_groups for part in rest),
        ),
    ]
