"""What a governor did, as a table and sentences, and as JSON."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.core.codec import to_json
from joulelab.governor.comparison import Comparison, Estimate
from joulelab.governor.report import GovernorReport, PhaseReport
from joulelab.objectives import without_quality
from joulelab.tracking.durable import write_whole

_UNKNOWN = "-"


def print_report(outcome: GovernorReport) -> None:
    """Print a table of phases and what it means, on the standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text(f"{outcome.gpu} under {outcome.strategy} for {outcome.duration_s:.0f} s"))
    if outcome.phases:
        console.print(phase_table(outcome.phases))
    for line in lines(outcome):
        console.print(Text(line))


def phase_table(phases: Iterable[PhaseReport]) -> Table:
    """Return a row for each phase."""
    table = quiet_table(
        *words("phase"),
        *numbers("share of time", "driver's clock", "power"),
        *words("set to"),
        *numbers("power", "slowdown"),
    )
    for phase in phases:
        table.add_row(
            phase.name,
            f"{100 * phase.share:.1f} %",
            _or_dash(phase.default_sm_clock_mhz, "{:.0f} MHz"),
            _or_dash(phase.default_power_w, "{:.0f} W"),
            phase.point.label,
            _or_dash(phase.power_w, "{:.0f} W"),
            _or_dash(None if phase.slowdown is None else 100 * phase.slowdown, "{:+.1f} %"),
        )
    return table


def lines(outcome: GovernorReport) -> list[str]:
    """Return what the numbers mean, a sentence or two each."""
    found = []
    if outcome.observing_only:
        found.append(f"Nothing is set, or nothing more: {outcome.observing_only}")
    if outcome.comparison is None:
        found.append(f"What was saved is not known: {outcome.reason}")
    else:
        found += _comparison_lines(outcome.comparison, outcome)
    found.append(
        f"The point was changed {outcome.num_changes} times. Governing took "
        f"{100 * outcome.cpu_share:.2g} % of a core."
    )
    if outcome.throttled_s:
        found.append(f"A power limit or heat held the clock down for {outcome.throttled_s:.0f} s.")
    return [*found, *outcome.notes]


def write_report(outcome: GovernorReport, target: str) -> None:
    """Write the report to a file, or with ``-`` to the standard output."""
    text = json.dumps(json.loads(to_json(outcome)), indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(Path(target), text)


def _comparison_lines(found: Comparison, outcome: GovernorReport) -> list[str]:
    label = without_quality(outcome.rules.objective).label
    changes = [f"energy per work {_estimate(found.energy)}", f"time {_estimate(found.time)}"]
    if label != "energy":
        changes.append(f"{label} {_estimate(found.cost)}")
    basis = (
        "Work is what the program reported."
        if found.by_progress
        else "Work is inferred from counters: operations and bytes per unit of work are taken to "
        "be the same throughout a phase."
    )
    lines = [
        f"Against the driver's own clocks ({found.num_on} governed blocks, {found.num_off} left "
        f"to it): {', '.join(changes)}.",
        basis,
    ]
    if found.time.upper > outcome.rules.max_slowdown:
        lines.append(
            f"The slowdown may exceed its limit of {100 * outcome.rules.max_slowdown:g} %; run "
            "longer to know, or ask for less."
        )
    if found.unknown_share > 0.01:
        lines.append(
            f"{100 * found.unknown_share:.0f} % of the time is left out: its work is not known."
        )
    return lines


def _estimate(found: Estimate) -> str:
    value, lower, upper = (100 * each for each in (found.value, found.lower, found.upper))
    return f"{value:+.1f} % [{lower:+.1f}, {upper:+.1f}]"


def _or_dash(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else form.format(value)
