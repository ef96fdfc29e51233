"""What the estimator says of micro-benchmarks: all of them at once, for fits that ask often."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from joulelab.core.point import OperatingPoint
from joulelab.estimator.calibration.points import Anchor
from joulelab.estimator.pricing.power import requested, settle, waiting_w
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.table import WorkTable, tabulate
from joulelab.hardware.processor import Processor
from joulelab.tracing.fusion import unfused
from joulelab.tracing.program import Operator, Program

Array = NDArray[np.float64]

_NO_CAP_W = 1e9
_ROTATED_B = 1e12
"""Stands for operands that rotate through more bytes than any cache holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Predictions for one call of each micro-benchmark, in their order."""

    time_s: Array
    energy_j: Array
    clock_mhz: Array


class Pricing:
    """Prices micro-benchmarks on processors; what does not depend on them is done once."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._anchors = tuple(anchors)
        # Whether a call finds its parameters in a cache is a matter of the whole program.
        apart = {
            (is_cold, is_last): [
                row
                for row, anchor in enumerate(anchors)
                if anchor.mode == "graph"
                and (anchor.is_cold, anchor.is_channels_last) == (is_cold, is_last)
            ]
            for is_cold in (False, True)
            for is_last in (False, True)
        }
        self._tables = [
            (rows, is_last, _table([anchors[row].operator for row in rows], _ROTATED_B * is_cold))
            for (is_cold, is_last), rows in apart.items()
            if rows
        ]

    def on(self, processor: Processor) -> Prices:
        """Return what they cost on ``processor`` at its default operating point."""
        return self._priced(processor, at_measured_clock=False)

    def at_measured_clocks(self, processor: Processor) -> Prices:
        """Return what they cost at the clocks at which they were seen to run, under no cap.

        So it does not matter by how much a cap held the clock down, nor that a short run may
        exceed it. Where no clock was measured, as :meth:`on`.
        """
        timing = replace(processor.timing, tensor_ceiling_start=None)
        return self._priced(replace(processor, timing=timing), at_measured_clock=True)

    def _priced(self, processor: Processor, *, at_measured_clock: bool) -> Prices:
        clock, cap = requested(processor, (OperatingPoint(),))
        idle_w = float(waiting_w(processor, clock, cap)[0])
        time_s = np.array([self._host_s(processor, anchor) for anchor in self._anchors])
        clock_mhz = np.full(len(self._anchors), clock[0])
        energy_j = time_s * idle_w
        gap_s = processor.timing.graph_launch_s
        for rows, is_last, table in self._tables:
            costs = group_costs(table, processor.without_layout_changes() if is_last else processor)
            clocks, caps = clock.repeat(len(rows)), cap.repeat(len(rows))
            if at_measured_clock:
                seen = [self._anchors[row].clock_mhz for row in rows]
                clocks = np.array([one or clock[0] for one in seen])
                caps = np.where([one is not None for one in seen], _NO_CAP_W, cap[0])
            settled = settle(costs, processor, clocks, caps)
            # One point for each anchor, of which the anchor's own group is wanted.
            own = (np.arange(len(rows)), table.sequence)
            device_s = settled.device_s[own]
            time_s[rows] = device_s + gap_s
            clock_mhz[rows] = settled.clock_mhz[own]
            energy_j[rows] = settled.power_w[own] * device_s + idle_w * gap_s
        return Prices(time_s=time_s, energy_j=energy_j, clock_mhz=clock_mhz)

    @staticmethod
    def _host_s(processor: Processor, anchor: Anchor) -> float:
        """Return the time of what the device does not set."""
        if anchor.mode != "eager":
            return anchor.time_s
        calls = anchor.kinds or {anchor.kind: 1}
        return sum(processor.timing.launch_s(kind) * count for kind, count in calls.items())


def _table(operators: Sequence[Operator], parameter_b: float) -> WorkTable:
    """Every operator as a kernel of its own, none of which knows of another's data.

    They run in loops, not within networks, so that they are priced by their kinds alone.
    """
    apart = [
        replace(operator, inputs=(2 * row,), outputs=(2 * row + 1,))
        for row, operator in enumerate(operators)
    ]
    program = Program(operators=tuple(apart), parameter_b=parameter_b)
    table = tabulate(program, unfused(program))
    return replace(table, classes=tuple(one.kind for one in table.operators))
