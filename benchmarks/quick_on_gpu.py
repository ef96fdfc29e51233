"""How far quick points are from the reference on one GPU, program by program, at its own clocks.

Usage: python benchmarks/quick_on_gpu.py OUT.jsonl                       (a simulated H100)
       python benchmarks/quick_on_gpu.py OUT.jsonl --device simulated:a100_sxm
       python benchmarks/quick_on_gpu.py OUT.jsonl --device nvml --budget-s 520  (observes only)
       python benchmarks/quick_on_gpu.py part0.jsonl part1.jsonl --read    (the report again)

Configurations come in random order, those of one set of weights together. Each is measured by the
reference procedure from rest, then quickly, and where time is left by the reference again, which
shows how far the reference is from itself. Every configuration has its share of the budget, by its
phases: the reference's warm-up and windows are cut to what that allows, and nothing is begun that
is likely not to end in time. Without a budget the reference is whole. Each row is written as soon
as it is there. Goal: 1 % root mean square where the host does not jitter, in a tenth of the time.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from quick_rows import Row, report, row_of

from joulelab.bench import Bench
from joulelab.core.clock import Clock
from joulelab.core.codec import from_json, to_json
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Pace, Procedure
from joulelab.core.trial import Trial
from joulelab.devices.choice import find_visible, open_device
from joulelab.devices.simulated import fleet
from joulelab.errors import JouleLabError
from joulelab.guard import ObserveOnly
from joulelab.workloads import WORKLOADS

Knobs = dict[str, Any]
_LLAMA_8B = {"model": "llama-3-8b", "new_tokens": 32}
_LLAMA_1B = {"model": "tinyllama", "new_tokens": 32}
CASES: tuple[tuple[str, Knobs], ...] = (
    ("gemm", {"precision": "bf16"}),
    ("gemm", {"precision": "fp32", "n": 4096}),
    ("stream", {}),
    *(("llama", {**_LLAMA_8B, "batch": b, "prompt_tokens": n}) for b, n in ((1, 512), (8, 128))),
    *(("llama", {**_LLAMA_8B, "batch": b, "prompt_tokens": n}) for b, n in ((8, 1024), (32, 256))),
    *(
        ("llama", {**_LLAMA_1B, "batch": b, "precision": p})
        for b in (1, 16)
        for p in ("fp16", "fp32")
    ),
    *(("vit", {"batch": b, "precision": p}) for b in (1, 32, 128) for p in ("fp16", "fp32")),
    *(("resnet50", {"batch": b, "precision": p}) for b in (1, 64) for p in ("bf16", "fp32")),
    *(("bert", {"batch": b}) for b in (1, 8, 32)),
    *(("diffusion", {"steps": 10, "batch": b}) for b in (1, 4)),
    *(("lstm", {"batch": b, "sequence_tokens": n}) for b, n in ((1, 64), (64, 256), (256, 64))),
    *(("detection", {"batch": b}) for b in (1, 4, 8)),
)
"""32, of which 30 need no diffusers."""
QUICK_S = 4.0
"""For a quick point of a phase; on a quiet host it takes half of that."""
AROUND_S = 2.0
"""What a trial takes besides idle, warm-up and windows: reading back, ticks, edges, last units."""
LEAST_S = 5.0
"""For a phase of a reference, of warm-up and windows: less than the counter's ticks allow is no
reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure.

    Attributes:
        files: One file to append to; with ``read``, those to report on.
        device: A backend, or ``simulated:`` and the catalogue's key of what is simulated.
        only: Take the programs whose name has this in it.
        part: Which part of the configurations, from 0; ``None`` for all.
        parts: Into how many they are divided.
        quick: Quick points of each configuration at most; one is measured wherever time allows.
        budget_s: Seconds of the device for all of it, with preparing; by default as many as it
            takes.
        seed: Of the order.
        read: Report on files and measure nothing.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    device: str = "simulated:h100_sxm"
    only: str = ""
    part: int | None = None
    parts: int = 2
    quick: int = 3
    budget_s: float = inf
    seed: int = 0
    read: bool = False


def main(settings: Settings) -> None:
    """Measure, and print how far the paces are from each other."""
    if not settings.read:
        logging.basicConfig(level=logging.INFO, format="%(message)s")  # why points are made again
        measure_all(settings)
    rows = [
        from_json(Row, line) for path in settings.files for line in path.read_text().splitlines()
    ]
    print(*report(rows), sep="\n")


def measure_all(settings: Settings) -> None:
    """Measure on one device, and append each row as soon as it is there."""
    (out,) = settings.files
    backend, _, key = settings.device.partition(":")
    with ExitStack() as stack:
        store = stack.enter_context(TemporaryDirectory())
        file = stack.enter_context(out.open("a"))
        address = (fleet(key, 1, store) if key else find_visible(backend, store))[0]
        device = open_device(address)
        stack.callback(device.close)
        print(f"{device.identity().name} {device.identity().uuid}", flush=True)
        bench = stack.enter_context(Bench(device, control=ObserveOnly(device, address)))
        for row in Run(device.clock, bench, settings).rows():
            file.write(to_json(row) + "\n")
            file.flush()


def chosen(settings: Settings) -> list[tuple[str, Knobs]]:
    """Return the configurations in their order: sets of weights at random, and within them."""
    found = [case for case in CASES if settings.only in case[0]]
    random = Random(settings.seed)  # noqa: S311 - an order, not a secret
    sets = [list(those) for _, those in groupby(sorted(found, key=_weights), key=_weights)]
    random.shuffle(sets)
    for those in sets:
        random.shuffle(those)
    cases = [case for those in sets for case in those]
    return cases if settings.part is None else cases[settings.part :: settings.parts]


def _weights(case: tuple[str, Knobs]) -> tuple[str, ...]:
    name, knobs = case
    return name, knobs.get("model", ""), knobs.get("precision", "")


def reference_within(limit_s: float, num_phases: int) -> Procedure:
    """Return the reference procedure, its waits and windows cut so that it ends in time."""
    usual = Procedure()
    each_s = max((limit_s - AROUND_S) / num_phases, LEAST_S)
    return replace(
        usual,
        idle_s=min(usual.idle_s, 0.1 * LEAST_S if each_s < usual.limit_s else usual.idle_s),
        warmup_min_s=min(usual.warmup_min_s, 0.3 * each_s),
        warmup_max_s=min(usual.warmup_max_s, 0.4 * each_s),
        window_s=min(usual.window_s, 0.15 * each_s),
        limit_s=min(usual.limit_s, 0.5 * each_s),
    )


def longest_s(procedure: Procedure, num_phases: int) -> float:
    """Return how long a reference takes that never gets steady nor precise."""
    each_s = procedure.warmup_max_s + procedure.limit_s
    return procedure.idle_s + AROUND_S + num_phases * each_s


class Run:
    """Measures configurations one after the other within a budget of the device's time."""

    def __init__(self, clock: Clock, bench: Bench, settings: Settings) -> None:
        self._clock, self._bench, self._settings = clock, bench, settings
        self._end_s = clock.now_s() + settings.budget_s

    def rows(self) -> Iterator[Row]:
        """Yield a row for each phase of each measurement."""
        cases = [(name, knobs, _phases(name, knobs)) for name, knobs in chosen(self._settings)]
        num_left = sum(num for *_, num in cases)
        for name, knobs, num_phases in cases:
            now_s = self._clock.now_s()
            until_s = now_s + (self._end_s - now_s) * num_phases / num_left
            yield from self._measured(name, knobs, num_phases, until_s)
            num_left -= num_phases

    def _measured(self, name: str, knobs: Knobs, num_phases: int, until_s: float) -> Iterator[Row]:
        case = " ".join((name, *(f"{key}={value}" for key, value in knobs.items())))
        configuration = Configuration.of(name, WORKLOADS[name].from_knobs(knobs).settings)
        if self._end_s - self._clock.now_s() < longest_s(reference_within(0, 1), num_phases):
            print(f"{case}: no time was left for it", flush=True)
            return
        try:
            self._bench.prepared(configuration)
        except JouleLabError as error:
            print(f"{case}: {error}", flush=True)
            return
        for pace, procedure in self._procedures(num_phases, until_s):
            start_s = self._clock.now_s()
            trial = Trial(study="paces", name=case, configuration=configuration)
            records = self._bench.measure(trial, procedure=procedure)
            took_s = self._clock.now_s() - start_s
            for record in records:
                is_cut = procedure.limit_s < Procedure().limit_s
                yield row_of(case, pace, took_s, record.measurement, is_cut=is_cut)

    def _procedures(self, num_phases: int, until_s: float) -> Iterator[tuple[Pace, Procedure]]:
        """Yield how to measure next as long as that is likely to end in time."""
        quick_s = QUICK_S * num_phases
        whole = reference_within(until_s - self._clock.now_s() - quick_s, num_phases)
        whole_s = longest_s(whole, num_phases)
        if self._clock.now_s() + whole_s > self._end_s:
            return
        yield "reference", whole
        for number in range(self._settings.quick):
            start_s = self._clock.now_s()
            if start_s + quick_s > (until_s if number else self._end_s):
                break
            yield "quick", replace(whole, pace="quick")
            quick_s = max(quick_s, self._clock.now_s() - start_s)
        if self._clock.now_s() + whole_s < until_s:
            yield "reference", whole


def _phases(name: str, knobs: Knobs) -> int:
    return len(WORKLOADS[name].from_knobs(knobs).phases)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
