"""Policies in words and as tables for a terminal."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Column, Table

from joulelab.analysis.policy import Policy, Served
from joulelab.analysis.table import Frame, frame, interval_columns, quiet_table
from joulelab.analysis.wording import percent, point_name
from joulelab.core.point import OperatingPoint
from joulelab.objectives import OBJECTIVES

_NAMED = 6
"""Equals that a sentence names."""


def policy_words(policy: Policy, objective: str) -> str:
    """Say which points to use, what they cost on average and at worst, and what is as good."""
    aim, points = OBJECTIVES[objective].label, " and ".join(map(point_words, policy.points))
    worst = max(policy.served, key=lambda each: each.regret.value)
    sentence = (
        f"{points} for {len(policy.served)} applications: {policy.mean_regret:.2%} above the least "
        f"{aim} of each on average, {policy.worst_regret:.2%} at worst ({worst.name})"
    )
    return f"{sentence[0].upper()}{sentence[1:]}{_equals(policy)}."


def policy_table(policy: Policy, objective: str) -> Table:
    """Lay out how a policy serves every application."""
    aim = OBJECTIVES[objective].label
    heads = ("runs at", "own best", f"{aim} above", f"{aim} against the default")
    table = quiet_table(
        Column("application", overflow="fold"),
        *(Column(head, justify="right") for head in heads),
        caption=f"{aim} above: over that at the application's own best point, with its 95 % "
        "interval. The best of noisy readings is a little too low, so this is a little too high.",
        pad_edge=True,
    )
    for each in policy.served:
        table.add_row(*_cells(each))
    return table


def point_words(point: OperatingPoint) -> str:
    """Write a point as short as labels of a plot are: ``"1095 MHz, 300 W"``."""
    return point_name(point, limit="W")


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


def _cells(served: Served) -> tuple[str, ...]:
    change = "" if served.change is None else percent(served.change)
    regret = "its own best" if served.point == served.own else percent(served.regret)
    return served.name, point_words(served.point), point_words(served.own), regret, change


def _equals(policy: Policy) -> str:
    others = policy.equals[1:]
    if len(policy.points) > 1:
        return ""
    if not others:
        return "; every other point is worse"
    named = ", ".join(map(point_words, others[:_NAMED]))
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"; statistically indistinguishable from it: {named}{more}"
