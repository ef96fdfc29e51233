"""Does an unlocked board keep its default clock where the driver names nothing against it?

Usage: python benchmarks/unlocked_clocks.py [--json FILE]      (a real GPU; no setter is called)

That tells whether a lower clock shows a lock (``clocks.stays_at_default`` of the catalogue): the
share of looks at a clock below the highest one for which the driver names no reason should be 0.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro
from rich.console import Console
from rich.table import Table

from joulelab.core.device import DeviceState
from joulelab.core.settings import unexplained_mhz
from joulelab.devices import DEVICES
from joulelab.devices.choice import find_visible

LOOK_S = 0.05
RAMP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long to look.

    Attributes:
        load_s: Time for each load.
        json: Write every look to this file.
    """

    load_s: float = 8.0
    json: str | None = None


def loads() -> dict[str, Callable[[], None]]:
    """Return loads that a power cap holds down, and loads that nothing does, and both in turn."""
    big, small = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for n in (8192, 1024))
    memory = torch.empty(2**28, device="cuda")

    def repeat(step: Callable[[], object], times: int) -> Callable[[], None]:
        def unit() -> None:
            for _ in range(times):
                step()
            torch.cuda.synchronize()

        return unit

    gemm, copy = repeat(lambda: big @ big, 8), repeat(memory.clone, 4)
    parts = [gemm, *[copy] * 3]

    def alternate() -> None:
        for part in parts:
            part()

    return {
        "GEMM 8192 bf16": gemm,
        "GEMM 1024 bf16": repeat(lambda: small @ small, 100),
        "copy": copy,
        "GEMM and copies in turn": alternate,
        "one small kernel a time": repeat(lambda: small.add(small), 1),
        "GEMM with pauses": lambda: (gemm(), time.sleep(0.02))[1],
        "nothing": lambda: time.sleep(0.05),
    }


def main(settings: Settings) -> int:
    """Print one row per load."""
    device = DEVICES["nvml"].open(find_visible("nvml")[0])
    highest = device.capabilities().sm_clocks_mhz[0], device.capabilities().mem_clocks_mhz[0]
    table = Table("load", "looks", "SM MHz", "low, %", "unexplained, %", "memory", "reasons")
    everything: dict[str, list[tuple[float, int, int | None, int]]] = {}
    for name, unit in loads().items():
        looks: list[tuple[float, DeviceState]] = []
        start_s = time.monotonic()

        def look(seen: list[tuple[float, DeviceState]] = looks, since_s: float = start_s) -> None:
            at_s = time.monotonic() - since_s
            if at_s > RAMP_S:
                seen.append((at_s, device.read_brief_state()))

        ticker = device.clock.every(LOOK_S, look)
        while time.monotonic() < start_s + settings.load_s:
            unit()
        ticker.stop()
        states = [state for _, state in looks]
        low = [s for s in states if s.sm_clock_mhz < highest[0] - 15]
        odd = [
            unexplained_mhz(states, knob, mhz)
            for knob, mhz in zip(("sm_clock_mhz", "mem_clock_mhz"), highest, strict=True)
        ]
        table.add_row(
            name,
            str(len(states)),
            f"{min(s.sm_clock_mhz for s in states)} to {max(s.sm_clock_mhz for s in states)}",
            f"{100 * len(low) / len(states):.1f}",
            " and ".join(f"{100 * len(each) / len(states):.1f}" for each in odd),
            ", ".join(sorted({str(s.mem_clock_mhz) for s in states})),
            ", ".join(f"{k} {v}" for k, v in Counter(str(s.event_reasons) for s in states).items()),
        )
        everything[name] = [
            (at_s, s.sm_clock_mhz, s.mem_clock_mhz, s.event_reasons.value) for at_s, s in looks
        ]
    Console(width=200).print(device.identity().name, device.identity().driver_version, table)
    if settings.json is not None:
        with open(settings.json, "w") as file:
            json.dump(everything, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
