"""``joulelab fleet``: how alike the boards of a cluster are."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.console import RenderableType
from rich.table import Column, Table

from joulelab.analysis.fleet import Aspect, BoardRatio, Fleet, fleets_of, short
from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.table import check_target, quiet_table
from joulelab.analysis.wording import boards_counted, change
from joulelab.cli.terminal import Printing
from joulelab.core.additive import Interval
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore, study_folders

_LEGEND = (
    "Each board over the mean of all, at the same work, with its 95 % interval; ! is unlike the "
    "others (5 % over all boards). Energy and power are what each board's own sensor says, which "
    f"may be off by some {100 * SENSOR_CLASS:.0f} %; time and the best clock are not."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCommand(Printing):
    """Compare the boards of each product: energy and time of equal work, idle power, best clock.

    Every sweep, search or study over several GPUs counts whose baseline each of them measured.

    Attributes:
        results_dirs: Results folders of studies, or folders that hold several.
        plot: Draw the boards into this .png or .svg file; of several products, the first.
    """

    results_dirs: tyro.conf.Positional[tuple[Path, ...]] = (DEFAULT_RESULTS,)
    plot: Path | None = None

    def run(self) -> int:
        """Compare, and print."""
        check_target(self.plot, ".png", ".svg", option="--plot")
        folders = [study for folder in self.results_dirs for study in study_folders(folder)]
        found = fleets_of([m for folder in folders for m in ResultStore(folder).read()])
        self.show([asdict(fleet) for fleet in found], lambda: _shown(found))
        if self.plot is not None:
            from joulelab.analysis.fleet_plot import save_fleet_plot

            save_fleet_plot(found[0], self.plot)
        return 0


def _shown(fleets: Sequence[Fleet]) -> Iterator[RenderableType]:
    for fleet in fleets:
        num = fleet.num_measurements
        yield f"{boards_counted(fleet.boards)}, {num} valid measurements of equal work"
        yield fleet_table(fleet)
        yield from (
            _outlier_words(each, aspect)
            for aspect in fleet.aspects
            for each in aspect.boards
            if each.is_outlier
        )
        if fleet.num_apart:
            yield f"{fleet.num_apart} more are of boards that share no configuration with these."


def fleet_table(fleet: Fleet) -> Table:
    """Lay out boards, the most costly first, and by how much they differ."""
    table = quiet_table(Column("board", no_wrap=True), Column("host"), caption=_LEGEND)
    for aspect in fleet.aspects:
        table.add_column(aspect.name, justify="right", no_wrap=True)
    rows = {board.uuid: [""] * len(fleet.aspects) for board in fleet.boards}
    for place, aspect in enumerate(fleet.aspects):
        for each in aspect.boards:
            rows[each.uuid][place] = change(each.ratio) + " !" * each.is_outlier
    for uuid in _in_order(fleet):
        table.add_row(short(uuid), fleet.hosts[uuid], *rows[uuid])
    table.add_section()
    table.add_row("mean of all", "", *(_mean(aspect) for aspect in fleet.aspects))
    table.add_row("boards differ by", "", *(_spread(aspect.spread) for aspect in fleet.aspects))
    return table


def _in_order(fleet: Fleet) -> list[str]:
    """Return UUIDs by the first aspect, the highest first; boards without it come last."""
    ratio = {each.uuid: each.ratio.value for each in fleet.aspects[0].boards}
    return sorted((b.uuid for b in fleet.boards), key=lambda uuid: -ratio.get(uuid, 0.0))


def _mean(aspect: Aspect) -> str:
    return "" if aspect.mean is None else f"{aspect.mean:.4g} {aspect.unit}"


def _spread(spread: Interval) -> str:
    value, low, high = (100 * each for each in (spread.value, spread.low, spread.high))
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _outlier_words(board: BoardRatio, aspect: Aspect) -> str:
    return (
        f"{short(board.uuid)} is unlike the others: {aspect.name} {change(board.ratio)} "
        f"from the mean, where boards differ by {100 * aspect.spread.value:.1f} %."
    )
