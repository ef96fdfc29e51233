"""The kernels of an estimate as a table, costliest first."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.bars import bar, stacked_bar
from joulelab.analysis.quantities import quantity
from joulelab.estimator.estimate import EnergySplit, GroupEstimate, PhaseEstimate

_NAME = 30
_LEAST_OPERATORS = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Groups that do the same work in different places of a network.

    Attributes:
        groups: In the order in which they run.
    """

    groups: tuple[GroupEstimate, ...]

    @property
    def name(self) -> str:
        """Name of the first, and how many more there are."""
        more = len(self.groups) - 1
        said = f" +{more}" if more else ""
        return short(self.groups[0].name, _NAME - len(said)) + said

    @property
    def flop(self) -> float:
        """Operations of all of them, on all pipes."""
        return sum(flop_of(group) for group in self.groups)

    @property
    def moved_b(self) -> float:
        """Bytes at the level farthest from the units that they touch."""
        return sum(main_memory_b(group) for group in self.groups)

    @property
    def elapsed_s(self) -> float:
        """Share of the latency of all of them."""
        return sum(group.elapsed_s for group in self.groups)

    @property
    def energy(self) -> EnergySplit:
        """Energy of all of them."""
        return EnergySplit(
            compute_j=sum(group.energy.compute_j for group in self.groups),
            memory_j=sum(group.energy.memory_j for group in self.groups),
            static_j=sum(group.energy.static_j for group in self.groups),
        )


def alike(groups: Sequence[GroupEstimate]) -> list[Alike]:
    """Put groups with the same operators, operations, bytes and bound together."""
    found: dict[object, list[GroupEstimate]] = {}
    for group in groups:
        flop, moved_b = sorted(group.flop.items()), sorted(group.moved_b.items())
        same = (group.operators, group.bound, tuple(flop), tuple(moved_b))
        found.setdefault(same, []).append(group)
    return [Alike(groups=tuple(members)) for members in found.values()]


def group_table(phase: PhaseEstimate, *, max_rows: int | None = 20) -> Table:
    """Lay out the kernels of ``phase``, those that take most energy first.

    Args:
        phase: Of which phase.
        max_rows: Rows to show; the others become one row. ``None`` shows all.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title, table.title_justify = f"Kernels of {phase.phase}, costliest first", "left"
    table.add_column("kernel, and how many alike", no_wrap=True)
    for head in ("FLOP", "bytes", "time", "energy"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("share", no_wrap=True)
    table.add_column("into", no_wrap=True)
    table.add_column("set by", no_wrap=True)
    ordered = sorted(alike(phase.groups), key=lambda found: -found.energy.total_j)
    shown = ordered if max_rows is None else ordered[:max_rows]
    total_j = phase.energy.total_j
    for found in shown:
        table.add_row(*_cells(found, found.name, total_j), found.groups[0].bound)
    rest = tuple(group for found in ordered[len(shown) :] for group in found.groups)
    if rest:
        name = f"{len(rest)} others"
        table.add_row(*_cells(Alike(groups=rest), name, total_j), style="dim")
    return table


def flop_of(group: GroupEstimate) -> float:
    """Return the operations of all pipes."""
    return sum(group.flop.values())


def main_memory_b(group: GroupEstimate) -> float:
    """Return the bytes at the level farthest from the units that the group touches."""
    touched = [moved_b for moved_b in group.moved_b.values() if moved_b > 0]
    return touched[-1] if touched else 0.0


def short(name: str, length: int) -> str:
    """Cut ``"module: operators"``: the operators at their end, the module at its start."""
    if len(name) <= length:
        return name
    module, colon, operators = name.rpartition(": ")
    room = max(_LEAST_OPERATORS, length - len(module) - len(colon))
    operators = _cut(operators, room if colon else length)
    left = length - len(colon) - len(operators)
    return (_cut(module[::-1], left)[::-1] if module else "") + colon + operators


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def _cells(found: Alike, name: str, total_j: float) -> list[str | Text]:
    share = found.energy.total_j / total_j
    return [
        name,
        quantity(found.flop, "", digits=3).strip(),
        quantity(found.moved_b, "B", digits=3),
        quantity(found.elapsed_s, "s", digits=3),
        quantity(found.energy.total_j, "J", digits=3),
        bar(share, width=6) + Text(f" {share:4.0%}"),
        stacked_bar(found.energy, width=6),
    ]
