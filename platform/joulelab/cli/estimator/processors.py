"""``joulelab processors``: the devices that the estimator knows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from joulelab.analysis.estimates.processor_table import processor_facts, processor_table
from joulelab.cli.estimator.terminal import terminal
from joulelab.hardware.processor import Family, Processor
from joulelab.hardware.processors import ALIASES, PROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """List the devices that the estimator knows; `joulelab devices` shows this machine's GPUs.

    Attributes:
        device: Show one device with every figure of its data file and its source.
        family: Only CPUs, GPUs, TPUs or KPUs.
        filter: Only those whose name holds this text.
        json: Print one JSON array instead of a table.
    """

    device: str | None = None
    family: Family | None = None
    filter: str = ""
    json: bool = False

    def run(self) -> int:
        """Print what is known.

        Returns:
            0, or 1 if no device is left.

        Raises:
            UnknownNameError: If there is no such device.
        """
        found = self._chosen()
        if self.json:
            print(json.dumps([_told(processor) for processor in found], indent=2))
        elif self.device is not None:
            terminal().print(processor_facts(found[0]))
        else:
            terminal().print(processor_table(found))
            aliases = ", ".join(f"{short} is {key}" for short, key in ALIASES.items())
            terminal().print(f"Short names: {aliases}.", style="dim")
        return int(not found)

    def _chosen(self) -> Sequence[Processor]:
        if self.device is not None:
            return [PROCESSORS[self.device]]
        text = self.filter.lower()
        return [
            processor
            for processor in PROCESSORS.values()
            if self.family in (None, processor.family)
            and text in f"{processor.key} {processor.product_name}".lower()
        ]


def _told(processor: Processor) -> dict[str, object]:
    return {
        "key": processor.key,
        "product_name": processor.product_name,
        "family": processor.family,
        "architecture": processor.architecture,
        "node_nm": processor.node_nm,
        "tier": processor.tier,
        "num_cores": processor.num_cores,
        "clocks_mhz": list(processor.clocks_mhz),
        "peak_flop_per_s": {
            pipe: processor.peak_flop_per_s(pipe) for pipe in processor.flop_per_clock
        },
        "levels": [
            {"name": level.name, "size_b": level.size_b, "b_per_s": level.bandwidth_b_per_s}
            for level in processor.levels
        ],
        "default_power_limit_w": processor.default_power_limit_w,
        "idle_w": processor.power.idle_w,
        "figures": {
            name: {"value": figure.value, "status": figure.status, "source": figure.source}
            for name, figure in processor.figures.items()
        },
    }
