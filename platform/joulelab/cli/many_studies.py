"""Commands over many studies: clocks for a set of applications; boards beside each other."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.console import RenderableType
from rich.table import Column, Table

from joulelab.analysis.fleet import Aspect, BoardRatio, Fleet, fleets_of, short
from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.policy import Application, Policy, applications_of, point_words, policies
from joulelab.analysis.quantities import change, counted, percent
from joulelab.analysis.table import Frame, check_target, frame, interval_columns, quiet_table
from joulelab.analysis.wording import boards_counted
from joulelab.cli.terminal import Printing
from joulelab.core.additive import Interval
from joulelab.errors import ConfigError
from joulelab.objectives import OBJECTIVES
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import DEFAULT_RESULTS, read_studies


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCommand(Printing):
    """Choose one clock, or a few, for all applications that were swept on one kind of GPU.

    Every workload, set of knobs and phase is an application. Each counts by how far it is above
    its own least cost, so that long ones do not drown short ones.
    """

    # Results folders of sweeps, or folders that hold several.
    results_dirs: tyro.conf.Positional[tuple[Path, ...]] = (DEFAULT_RESULTS,)
    objective: str = "edp"  # What is to be low: edp, ed2p, energy, time, or that of a plug-in.
    points: int = 2  # Choose policies of up to so many clocks.
    # Words that the name of an application must contain one of; by default all count.
    only: tuple[str, ...] = ()
    out: Path | None = None  # Write the table to this .csv or .json file.
    plot: Path | None = None  # Draw the last policy into this .png or .svg file.

    def run(self) -> int:
        """Choose, and print."""
        check_target(self.out, ".csv", ".json")
        check_target(self.plot, ".png", ".svg", option="--plot")
        applications = self._applications()
        found = policies(applications, most_points=self.points)
        self.show([policy_fields(policy) for policy in found], lambda: self._shown(found))
        self._write(applications, found)
        return 0

    def _applications(self) -> Sequence[Application]:
        known = applications_of(read_studies(*self.results_dirs), self.objective)
        kept = [each for each in known if not self.only or any(w in each.name for w in self.only)]
        if len(kept) < 2:
            raise ConfigError(
                "A policy is for two applications or more; there are "
                f"{', '.join(each.name for each in known) or 'none'}, of which {len(kept)} count."
            )
        return kept

    def _shown(self, found: Sequence[Policy]) -> Iterator[RenderableType]:
        for policy in found:
            yield policy_words(policy, self.objective)
            yield policy_table(policy, self.objective)

    def _write(self, applications: Sequence[Application], found: Sequence[Policy]) -> None:
        if self.out is not None:
            table = policy_frame(found).to_pandas()
            if self.out.suffix == ".csv":
                write_whole(self.out, table.to_csv(index=False))
            else:
                write_whole(self.out, table.to_json(orient="records", indent=2))
        if self.plot is not None:
            from joulelab.analysis.many_studies_plot import save_policy_plot

            aim = OBJECTIVES[self.objective].label
            save_policy_plot(applications, found[-1], self.plot, aim=aim)


_NAMED = 6  # equals that a sentence names


def policy_words(policy: Policy, objective: str) -> str:
    """Say which points to use, what they cost on average and at worst, and what is as good."""
    aim, points = OBJECTIVES[objective].label, " and ".join(map(point_words, policy.points))
    worst = max(policy.served, key=lambda each: each.regret.value)
    sentence = (
        f"{points} for {len(policy.served)} applications: {policy.mean_regret:.2%} above the least "
        f"{aim} of each on average, {policy.worst_regret:.2%} at worst ({worst.name})"
    )
    return f"{sentence[0].upper()}{sentence[1:]}{_equals(policy)}{_left_out(policy)}."


def policy_table(policy: Policy, objective: str) -> Table:
    """Lay out how a policy serves every application."""
    aim = OBJECTIVES[objective].label
    heads = ("runs at", "own best", f"{aim} above", f"{aim} against the default")
    table = quiet_table(
        Column("application", overflow="fold"),
        *(Column(head, justify="right") for head in heads),
        caption=f"{aim} above: over that at the best point of the application's own sweep, with "
        "its 95 % interval, which holds that the best of noisy readings is a little too low.",
        pad_edge=True,
    )
    for each in policy.served:
        change = "" if each.change is None else percent(each.change)
        regret = "its own best" if each.point == each.own else percent(each.regret)
        table.add_row(*(each.name, point_words(each.point), point_words(each.own), regret, change))
    return table


def policy_frame(policies: Sequence[Policy]) -> Frame:
    """List how every policy serves every application."""
    return frame(
        {
            "num_points": "num_points",
            "application": "served.name",
            "point": "served.point.label",
            "own_best": "served.own.label",
            **interval_columns("regret", "served.regret"),
            "change": "served.change.value",
        },
        [
            {"num_points": len(policy.points), "served": served}
            for policy in policies
            for served in policy.served
        ],
    )


def policy_fields(policy: Policy) -> dict[str, object]:
    """Return a policy for JSON, its points by their labels."""
    return {
        **asdict(policy),
        "points": [point.label for point in policy.points],
        "served": [
            {**asdict(each), "point": each.point.label, "own": each.own.label}
            for each in policy.served
        ],
        "equals": [point.label for point in policy.equals],
    }


def _left_out(policy: Policy) -> str:
    num = policy.num_left_out
    if not num:
        return ""
    verb = "was" if num == 1 else "were"
    return f"; {counted(num, 'point')} {verb} left out, where not every application was measured"


def _equals(policy: Policy) -> str:
    others = policy.equals[1:]
    if len(policy.points) > 1:
        return ""
    if not others:
        return "; every other point is worse"
    named = ", ".join(map(point_words, others[:_NAMED]))
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"; statistically indistinguishable from it: {named}{more}"


_LEGEND = (
    "Each board over the mean of all, at the same work, with its 95 % interval; ! is unlike the "
    "others (5 % over all boards). Energy and power are what each board's own sensor says, which "
    f"may be off by some {100 * SENSOR_CLASS:.0f} %; time and the best clock are not."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCommand(Printing):
    """Compare the boards of each product: energy and time of equal work, idle power, best clock.

    Every sweep, search or study over several GPUs counts whose baseline each of them measured.
    """

    # Results folders of studies, or folders that hold several.
    results_dirs: tyro.conf.Positional[tuple[Path, ...]] = (DEFAULT_RESULTS,)
    # Draw the boards into this .png or .svg file; of several products, the first.
    plot: Path | None = None

    def run(self) -> int:
        """Compare, and print."""
        check_target(self.plot, ".png", ".svg", option="--plot")
        found = fleets_of(read_studies(*self.results_dirs))
        self.show([asdict(fleet) for fleet in found], lambda: _shown(found))
        if self.plot is not None:
            from joulelab.analysis.many_studies_plot import save_fleet_plot

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
        table.add_column(aspect.name, justify="right")
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
