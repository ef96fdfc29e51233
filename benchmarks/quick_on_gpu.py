"""How far quick points are from the reference on one GPU, program by program, at its own clocks.

Usage: python benchmarks/quick_on_gpu.py OUT.jsonl --device nvml --budget-s 470  (observes only)
       python benchmarks/quick_on_gpu.py OUT.jsonl                 (a simulated H200, all from rest)
       python benchmarks/quick_on_gpu.py OUT.jsonl --device simulated:a100_sxm --budget-s 470
       python benchmarks/quick_on_gpu.py part0.jsonl part1.jsonl --read    (the report again)

Configurations come in random order, those of one set of weights together. Each is measured quickly
right after the one before, as in a search; then the same program goes on into the reference's
warm-up and windows. So a quick point has the warmth that others left, not that of its reference,
and a host has little time to change its pace between them. What one board needs but once is shared:
the idle window, and the begin of the warm-up, which are those of a reference from rest, idle window
and all, of the first configuration. Those of others follow where time is left: they say what a
reference takes by itself, and how far the shared ones are from it.

Every configuration has its share of the budget, by its phases: the longest warm-up and the most
windows are cut to what that allows, and a reference that would have gone on is marked; nothing is
begun that is likely not to end in time. Each row is written as soon as it is there, and the same
command goes on where it ended. Goal: 1 % root mean square where the host does not jitter, in a
tenth of the time.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from quick_rows import Manner, Row, all_again, report, row_of

from joulelab.bench import Bench
from joulelab.core.clock import Clock
from joulelab.core.codec import from_json, to_json
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.choice import find_visible, open_device
from joulelab.devices.simulated import fleet
from joulelab.errors import JouleLabError
from joulelab.guard import ObserveOnly
from joulelab.workloads import WORKLOADS

Knobs = dict[str, Any]
_LLAMA_8B = {"model": "llama-3-8b", "new_tokens": 8}
_LLAMA_1B = {"model": "tinyllama", "new_tokens": 8}
CASES: tuple[tuple[str, Knobs], ...] = (
    *(("gemm", {"precision": p}) for p in ("bf16", "fp16", "fp32")),
    *(("gemm", {"precision": p, "n": 4096}) for p in ("bf16", "fp32")),
    *(("stream", {"kernel": kernel}) for kernel in ("copy", "triad")),
    *(("vit", {"batch": b, "precision": "fp16"}) for b in (64, 128, 256)),
    *(("vit", {"batch": b, "precision": "fp32"}) for b in (32, 64, 128)),
    *(("resnet50", {"batch": b, "precision": "bf16"}) for b in (64, 128, 256)),
    *(("resnet50", {"batch": b, "precision": "fp32"}) for b in (32, 64, 128)),
    *(("bert", {"batch": b, "tokens": n}) for b, n in ((32, 128), (32, 384), (64, 384))),
    *(("bert", {"batch": b, "tokens": n, "precision": "fp32"}) for b, n in ((8, 384), (16, 128))),
    *(("detection", {"batch": b}) for b in (1, 32)),
    ("vit", {"batch": 1, "precision": "fp16"}),
    *(("llama", {**_LLAMA_8B, "batch": b, "prompt_tokens": n}) for b, n in ((8, 1024), (32, 256))),
    ("llama", {**_LLAMA_1B, "batch": 16, "precision": "fp32"}),
)
"""30. Those of batch 1, and decodes, wait for their host; the others are to keep an H200 busy."""
QUICK_S = 4.0
"""For a quick point of a phase; on a quiet host it takes half of that."""
AROUND_S = 2.0
"""What a trial takes besides idle, warm-up and windows: reading back, ticks, edges, last units."""
LEAST_S = 5.0
"""For a phase of a reference, of warm-up and windows: less than the counter's ticks allow is no
reference."""
WARMED_S = 2.0
"""Shortest warm-up of a reference that goes on: the quick point ran the same load for more than
another second, and the shortest from rest is 3 s."""
FROM_REST_S = 36.0
"""For a phase of a reference from rest within a budget, of which the last configuration has one if
there are three times as many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure.

    Attributes:
        files: One file to append to, where what it has is not measured again; with ``read``, those
            to report on.
        device: A backend, or ``simulated:`` and the catalogue's key of what is simulated.
        only: Take the programs whose name has this in it.
        part: Which part of the configurations, from 0; ``None`` for all.
        parts: Into how many they are divided.
        budget_s: Seconds of the device for all of it, with preparing; by default as many as it
            takes.
        seed: Of the order.
        read: Report on files and measure nothing.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    device: str = "simulated:h200_sxm"
    only: str = ""
    part: int | None = None
    parts: int = 2
    budget_s: float = inf
    seed: int = 0
    read: bool = False


def main(settings: Settings) -> None:
    """Measure, and print how far the paces are from each other."""
    if not settings.read:
        logging.basicConfig(level=logging.INFO, format="%(message)s")  # why points are made again
        measure_all(settings)
    print(*report(read_rows(settings.files)), sep="\n")


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
        begun_s, known = device.clock.now_s(), read_rows([out])
        for row in Run(device.clock, bench, settings, known).rows():
            file.write(to_json(row) + "\n")
            file.flush()
        print(f"{device.clock.now_s() - begun_s:.0f} s of the device, with preparing")


def read_rows(files: Iterable[Path]) -> list[Row]:
    """Return the rows of files."""
    return [from_json(Row, line) for path in files for line in path.read_text().splitlines()]


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
    """Return how the reference goes on from a quick point, so that it ends in time.

    Windows are whole where a phase has nine seconds.
    """
    usual = Procedure()
    each_s = max((limit_s - AROUND_S) / num_phases, LEAST_S)
    window_s = min(usual.window_s, each_s / 4.5)
    windows_s = min(usual.limit_s, max(3.2 * window_s, each_s / 2))
    return replace(
        usual,
        pace="reference",
        idle_s=0.0,
        settle_s=0.0,  # nothing was set
        warmup_min_s=min(WARMED_S, each_s - windows_s),
        warmup_max_s=min(usual.warmup_max_s, each_s - windows_s),
        window_s=window_s,
        limit_s=windows_s,
    )


def from_rest_within(limit_s: float, num_phases: int) -> Procedure:
    """Return the reference procedure, its longest warm-up and most windows cut to end in time."""
    usual = Procedure()
    each_s = (limit_s - AROUND_S - usual.idle_s) / num_phases
    windows_s = min(usual.limit_s, max(3.2 * usual.window_s, each_s / 3))
    return replace(
        usual,
        pace="reference",
        warmup_max_s=min(usual.warmup_max_s, max(usual.warmup_min_s, each_s - windows_s)),
        limit_s=windows_s,
    )


def longest_s(procedure: Procedure, num_phases: int) -> float:
    """Return how long a reference takes that never gets steady nor precise."""
    each_s = procedure.warmup_max_s + procedure.limit_s
    return procedure.idle_s + AROUND_S + num_phases * each_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A configuration, and how many phases it has."""

    name: str
    configuration: Configuration
    num_phases: int

    @classmethod
    def of(cls, name: str, knobs: Knobs) -> "Case":
        """Return that of a workload and its knobs."""
        workload = WORKLOADS[name].from_knobs(knobs)
        return cls(
            name=" ".join((name, *(f"{key}={value}" for key, value in knobs.items()))),
            configuration=Configuration.of(name, workload.settings),
            num_phases=len(workload.phases),
        )


class Run:
    """Measures configurations one after the other within a budget of the device's time."""

    def __init__(
        self, clock: Clock, bench: Bench, settings: Settings, known: Sequence[Row]
    ) -> None:
        self._clock, self._bench, self._settings = clock, bench, settings
        self._end_s = clock.now_s() + settings.budget_s
        self._compared = {row.case for row in known if row.asked == "going on"}
        self._compared |= {each.case for each in all_again(known)}
        self._from_rest = {row.case for row in known if row.asked == "reference"}

    def rows(self) -> Iterator[Row]:
        """Yield a row for each phase of each measurement."""
        cases = [Case.of(name, knobs) for name, knobs in chosen(self._settings)]
        left = [case for case in cases if case.name not in self._compared]
        num_left = sum(case.num_phases for case in left)
        for case in left:
            if not self._from_rest:
                yield from self._measured_from_rest(case)
            now_s = self._clock.now_s()
            left_s = self._end_s - now_s
            left_s -= FROM_REST_S * cases[-1].num_phases if left_s > 3 * FROM_REST_S else 0.0
            yield from self._measured_on(case, now_s + left_s * case.num_phases / num_left)
            num_left -= case.num_phases
        for case in reversed(cases):  # the last one's weights are there
            if case.name not in self._from_rest:
                yield from self._measured_from_rest(case)

    def _measured_on(self, case: Case, until_s: float) -> Iterator[Row]:
        """Measure a configuration quickly, and by a reference that goes on from there."""
        quick_s = QUICK_S * case.num_phases
        if not self._has_time_for(quick_s + longest_s(reference_within(0, 1), case.num_phases)):
            print(f"{case.name}: no time was left for it", flush=True)
            return
        if not self._is_prepared(case):
            return
        within = reference_within(until_s - self._clock.now_s() - quick_s, case.num_phases)
        quick = list(self._measured(case, "quick", replace(within, pace="quick")))
        yield from quick
        if not all_again(quick):
            within = reference_within(until_s - self._clock.now_s(), case.num_phases)
            yield from self._measured(case, "going on", within)

    def _measured_from_rest(self, case: Case) -> Iterator[Row]:
        asked_s = inf if self._end_s == inf else FROM_REST_S * case.num_phases
        procedure = from_rest_within(asked_s, case.num_phases)
        longest = longest_s(procedure, case.num_phases)
        if self._has_time_for(longest) and self._is_prepared(case):
            self._from_rest.add(case.name)
            yield from self._measured(case, "reference", procedure)

    def _has_time_for(self, takes_s: float) -> bool:
        return self._clock.now_s() + takes_s <= self._end_s

    def _is_prepared(self, case: Case) -> bool:
        try:
            self._bench.prepared(case.configuration)
        except JouleLabError as error:
            print(f"{case.name}: {error}", flush=True)
            return False
        return True

    def _measured(self, case: Case, manner: Manner, procedure: Procedure) -> Iterator[Row]:
        start_s = self._clock.now_s()
        trial = Trial(study="paces", name=case.name, configuration=case.configuration)
        records = self._bench.measure(trial, procedure=procedure)
        took_s = self._clock.now_s() - start_s
        for record in records:
            yield row_of(case.name, manner, took_s, record.measurement, procedure)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
