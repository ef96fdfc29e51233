"""Kernels of a trace as tables."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table

from joulelab.analysis.quantities import brief, counted
from joulelab.analysis.table import Frame, numbers, quiet_table, words
from joulelab.attribution.kineto import Launches
from joulelab.attribution.launch_summary import (
    TIERS,
    DeviceSummary,
    KernelSummary,
    devices_in,
    kernels_in,
)

MAX_KERNELS = 30
MOST_PRINTED = 15
_PLACES = r"^void |at::native::|\(anonymous namespace\)::|std::enable_if<.*?>::type "
"""What the names of PyTorch's kernels begin with, which tells none from another."""
_NAME_LETTERS, _PRINTED_LETTERS, _OPERATOR_LETTERS = 56, 36, 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelProfile:
    """A trace, its distinct kernels, most time first, and what every GPU did."""

    launches: Launches
    kernels: tuple[KernelSummary, ...]
    devices: tuple[DeviceSummary, ...]

    @classmethod
    def of(cls, launches: Launches) -> "KernelProfile":
        """Reduce a trace."""
        return cls(launches=launches, kernels=kernels_in(launches), devices=devices_in(launches))


def answer(profile: KernelProfile) -> str:
    """Say what ran, in one sentence."""
    share = fmean(one.busy_s / one.span_s for one in profile.devices)
    lost, num = profile.launches.lost, len(profile.launches)
    text = (
        f"{num} {'launch' if num == 1 else 'launches'} of "
        f"{counted(len(profile.kernels), 'distinct kernel')} on "
        f"{counted(len(profile.devices), 'GPU')}: a kernel ran in {share:.1%} of "
        f"{brief(max(one.span_s for one in profile.devices), 's')}."
    )
    return f"{text} {lost} launches have no kernel: the profiler lost them." if lost else text


def device_table(devices: Sequence[DeviceSummary]) -> Table:
    """Return a table of GPUs."""
    table = quiet_table(
        *numbers("GPU", "span", "busy", "share", "overlap", "communication alone", "gaps"),
        *numbers("longest gap", "streams"),
    )
    for one in devices:
        table.add_row(
            str(one.device),
            brief(one.span_s, "s"),
            brief(one.busy_s, "s"),
            f"{one.busy_s / one.span_s:.1%}",
            f"{max(one.kernel_s / one.busy_s - 1, 0.0):.1%}",  # rounding, where none overlap
            brief(one.communication_s, "s"),
            str(one.num_gaps),
            brief(one.longest_gap_s, "s"),
            str(one.num_streams),
        )
    return table


def tier_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return a table of where kernels come from."""
    table = quiet_table(*words("from"), *numbers("distinct", "launches", "time", "share"))
    whole_s = sum(one.total_s for one in kernels)
    for tier in TIERS:
        own = [one for one in kernels if one.tier == tier]
        if own:
            total_s = sum(one.total_s for one in own)
            table.add_row(
                tier,
                str(len(own)),
                str(sum(one.num_launches for one in own)),
                brief(total_s, "s"),
                f"{total_s / whole_s:.1%}",
            )
    return table


def kernel_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return a table of the distinct kernels that take most time."""
    has_inputs = any(one.operator.inputs for one in kernels)
    table = quiet_table(
        *words("kernel", "operator"),
        *numbers("launches", "time", "share", "mean", "grid", "GPU:stream"),
        *words(*["inputs"] * has_inputs),  # long: last, where a page is scrolled to
    )
    whole_s = sum(one.total_s for one in kernels)
    for one in kernels[:MAX_KERNELS]:
        grid = "x".join(map(str, one.signature.grid))
        stream = f"{one.signature.device}:{one.signature.stream}"
        given = [one.operator.inputs] * has_inputs
        table.add_row(_name(one), one.operator.name, *_spent(one, whole_s), grid, stream, *given)
    return table


def short_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return the table as a terminal of 100 letters holds it, without shapes and places."""
    table = quiet_table(*words("kernel", "operator"), *numbers("launches", "time", "share", "mean"))
    whole_s = sum(one.total_s for one in kernels)
    for one in kernels[:MOST_PRINTED]:
        named = _name(one)[:_PRINTED_LETTERS], one.operator.name[:_OPERATOR_LETTERS]
        table.add_row(*named, *_spent(one, whole_s))
    return table


def _name(one: KernelSummary) -> str:
    return re.sub(_PLACES, "", one.signature.name)[:_NAME_LETTERS]


def _spent(one: KernelSummary, whole_s: float) -> tuple[str, ...]:
    share = f"{one.total_s / whole_s:.1%}"
    return str(one.num_launches), brief(one.total_s, "s"), share, brief(one.mean_s, "s")


def frame(kernels: Sequence[KernelSummary]) -> Frame:
    """Return all distinct kernels as numbers in SI units."""
    return Frame.of(
        [
            {
                "kernel": one.signature.name,
                "tier": one.tier,
                "operator": one.operator.name,
                "inputs": one.operator.inputs,
                "device": one.signature.device,
                "stream": one.signature.stream,
                "grid": "x".join(map(str, one.signature.grid)),
                "block": "x".join(map(str, one.signature.block)),
                "shared_b": one.signature.shared_b,
                "num_launches": one.num_launches,
                "total_s": one.total_s,
                "mean_s": one.mean_s,
                "shortest_s": one.shortest_s,
                "longest_s": one.longest_s,
            }
            for one in kernels
        ]
    )


def lines(profile: KernelProfile) -> Iterable[str | Table]:
    """Yield sentences and tables that tell a trace."""
    yield answer(profile)
    yield device_table(profile.devices)
    yield tier_table(profile.kernels)
    yield short_table(profile.kernels)
