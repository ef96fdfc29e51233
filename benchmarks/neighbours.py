"""How much a load on another GPU of the same host moves what a measurement finds.

Usage: python benchmarks/neighbours.py OUT.csv                     (two simulated H200s)
       python benchmarks/neighbours.py OUT.csv --device nvml       (two GPUs; calls no setter)

Programs are measured on the first GPU in turn with the second at rest and with a product of
matrices on it, in the order rest, load, load, rest, so that a drift cancels. A row of each is
written as soon as it is there. A load is named where energy or time of a unit differs by more than
its 95 % interval.
"""

import csv
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import tyro

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.choice import find_visible, open_device
from joulelab.devices.simulated import fleet
from joulelab.guard import ObserveOnly
from joulelab.sampling.spells import mean_difference
from joulelab.workloads import WORKLOADS

CASES = {
    "gemm": ("gemm", {"precision": "bf16"}),
    "stream": ("stream", {}),
    "vit-large batch 32": ("vit", {"model": "vit-large", "precision": "fp16", "batch": 32}),
    "llama-3-8b": ("llama", {"model": "llama-3-8b", "new_tokens": 32}),
}
"""A device-bound program at the power limit, one below it, and two that a host slows or bounds."""
ORDER = (False, True, True, False)
_PROCEDURE = Procedure(
    idle_s=3.0, warmup_min_s=2.0, warmup_max_s=4.0, window_s=1.0, min_windows=3, limit_s=5.0
)
Rows = dict[tuple[str, str], dict[bool, list[tuple[float, float]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure.

    Attributes:
        out: Where rows go.
        device: A backend of real GPUs; by default two are simulated.
        rounds: How often a program is measured in the whole order.
        only: Take these programs alone.
        load: Load the GPU of this UUID until killed, and measure nothing; the script's own use.
        store: Folder of simulated GPUs that are loaded so.
        procedure: How each measurement is made.
    """

    out: tyro.conf.Positional[Path]
    device: str = "simulated"
    rounds: int = 2
    only: tuple[str, ...] = ()
    load: str = ""
    store: str = ""
    procedure: Procedure = field(default_factory=lambda: _PROCEDURE)


def configured(name: str) -> Configuration:
    """Return the configuration of a case."""
    workload, knobs = CASES[name]
    return Configuration.of(workload, WORKLOADS[workload].from_knobs(knobs).settings)


def found_at(device: str, store: str) -> Sequence[DeviceAddress]:
    """Return the addresses of the GPUs."""
    return fleet("h200_sxm", 2, store) if device == "simulated" else find_visible(device, store)


@contextmanager
def opened(address: DeviceAddress, procedure: Procedure) -> Iterator[Bench]:
    """Yield a bench on a GPU that calls no setter."""
    device = open_device(address)
    try:
        with Bench(device, control=ObserveOnly(device, address), procedure=procedure) as bench:
            yield bench
    finally:
        device.close()


def run_load(settings: Settings) -> None:
    """Measure products on the GPU that is named, over and over, until killed."""
    (address,) = (a for a in found_at(settings.device, settings.store) if a.uuid == settings.load)
    with opened(address, settings.procedure) as bench:
        bench.prepared(configured("gemm"))
        print("ready", flush=True)
        long = replace(settings.procedure, idle_s=0.0, window_s=600.0, limit_s=600.0)
        trial = Trial(study="load", name="load", configuration=configured("gemm"))
        while True:
            bench.measure(trial, procedure=long)


@contextmanager
def loaded(settings: Settings, uuid: str, store: str) -> Iterator[None]:
    """Have the other GPU work within the block."""
    command = [sys.executable, __file__, str(settings.out), "--device", settings.device]
    process = subprocess.Popen(
        [*command, "--load", uuid, "--store", store], stdout=subprocess.PIPE, text=True
    )
    try:
        if process.stdout is None or "ready" not in process.stdout.readline():
            raise RuntimeError(f"The load on {uuid} did not start; see above.")
        yield
    finally:
        process.kill()
        process.wait()


def measured(settings: Settings) -> Iterator[tuple[str, bool, Measurement]]:
    """Yield measurements of all programs, in turn with and without a load beside them."""
    with ExitStack() as stack:
        store = stack.enter_context(TemporaryDirectory())
        first, second, *_ = found_at(settings.device, store)
        bench = stack.enter_context(opened(first, settings.procedure))
        for name in settings.only or CASES:
            trial = Trial(study="neighbours", name=name, configuration=configured(name))
            for is_loaded in ORDER * settings.rounds:
                beside = loaded(settings, second.uuid, store) if is_loaded else nullcontext()
                with beside:
                    for record in bench.measure(trial):
                        yield name, is_loaded, record.measurement


def main(settings: Settings) -> None:
    """Measure, write, and print how much the load moves each phase."""
    if settings.load:
        run_load(settings)
        return
    found: Rows = {}
    with settings.out.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("program", "phase", "loaded", "energy_j", "time_s", "idle_w", "reason"))
        for name, is_loaded, one in measured(settings):
            numbers = (one.energy_per_unit_j, one.time_per_unit_s) if one.valid else ()
            idle_w = one.idle_power_w if one.valid else None
            shown = numbers or (None, None)
            rows.writerow((name, one.phase, int(is_loaded), *shown, idle_w, one.reason))
            file.flush()
            if numbers:
                kept = found.setdefault((name, one.phase), {False: [], True: []})
                kept[is_loaded].append(numbers)
    for (name, phase), kept in found.items():
        print(f"{name}, {phase}: {sentence(kept)}")


def sentence(kept: dict[bool, list[tuple[float, float]]]) -> str:
    """Say by how much a load moves energy and time, pair by pair."""
    parts = []
    for place, what in enumerate(("energy", "time")):
        both = zip(kept[True], kept[False], strict=False)
        pairs = [(beside[place], alone[place]) for beside, alone in both]
        if len(pairs) < 2:
            return f"{len(pairs)} pairs are too few"
        moved = mean_difference(pairs)
        verdict = "within its interval" if moved.low <= 0 <= moved.high else "the load moves it"
        interval = f"{moved.low:+.2%} to {moved.high:+.2%} with 95 %, {len(pairs)} pairs"
        parts.append(f"{what} {moved.value:+.2%} ({interval}; {verdict})")
    return "; ".join(parts)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
