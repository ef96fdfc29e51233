"""Whether estimates obey: every built-in model, processor, precision and two batches.

Usage: python benchmarks/run.py estimator_laws      (about half an hour on two cores)

Power, roofline and energy are checked in every cell, eager and compiled. That groups and events
sum to the whole is checked for every model on every processor, whose precisions, batches and modes
take turns over the models.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing import get_context

import estimate_laws
from figures import Figure

from joulelab.errors import ConfigError
from joulelab.estimator import estimate as estimate_by_name
from joulelab.estimator.estimate import Mode
from joulelab.estimator.models import model_names, trace_model
from joulelab.estimator.pricing.predict import Totals, estimate, totals
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import PRECISIONS, supports
from joulelab.tracing.program import TracedModel

_SOURCES = ("torchvision", "hf", "diffusers", "workload")
_BATCHES = (1, 64)
_MODES: tuple[Mode, ...] = ("eager", "compiled")
_TIGHT = 1 + 1e-9


@dataclass(kw_only=True)
class Found:
    """What came closest to breaking a law, and where; as many as were checked.

    Attributes:
        num_cells: Cells of model, processor, precision and batch.
        num_partitions: Estimates whose parts were summed.
        cap: Largest power over the cap.
        roofline: Largest share of the time that is roofline.
        shrinkage: Largest energy of an execution over that at a larger batch.
        partition: Largest relative error of a sum of parts.
        without_energy: Cells whose energy is not above 0.
        refused: Why cells have no estimate, with their number.
        without_cells: Models that have no estimate at all.
    """

    num_cells: int = 0
    num_partitions: int = 0
    cap: tuple[float, str] = (0.0, "")
    roofline: tuple[float, str] = (0.0, "")
    shrinkage: tuple[float, str] = (0.0, "")
    partition: tuple[float, str] = (0.0, "")
    without_energy: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    without_cells: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        """Take in what was found elsewhere."""
        for name in ("cap", "roofline", "shrinkage", "partition"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in ("num_cells", "num_partitions", "without_energy"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused += other.refused


def figures() -> list[Figure]:
    """Return the figures, and print which models refuse what."""
    names = _names()
    found = Found()
    context = get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as workers:
        for name, each in zip(names, workers.map(checked, names, range(len(names))), strict=True):
            found.add(each)
            print(f"{name}: {each.num_cells} cells", file=sys.stderr, flush=True)
            if not each.num_cells:
                found.without_cells.append(name)
    for reason, number in sorted(found.refused.items()):
        print(f"refused, {number} cells: {reason}", file=sys.stderr)
    return _figures(found, len(names))


def _names() -> list[str]:
    listed = model_names()
    bare = ((source, name.rpartition(":")[2]) for source in _SOURCES for name in listed[source])
    return [f"{source}:{name}" for source, name in bare]


def _figures(found: Found, num_models: int) -> list[Figure]:
    cells = f"{found.num_cells} cells of {num_models} models, eager and compiled"
    nothing = ", ".join(found.without_cells) or "none"
    rows = (
        ("largest power over the power cap", found.cap, _TIGHT, cells),
        ("largest share of roofline time in time", found.roofline, _TIGHT, cells),
        (
            "largest energy of an execution over that at 64 times the batch",
            found.shrinkage,
            _TIGHT,
            cells,
        ),
        (
            *("largest relative error of a sum of groups or events", found.partition, 1e-9),
            f"{found.num_partitions} estimates",
        ),
    )
    a100 = estimate_by_name(
        "resnet18", device="a100_sxm", precision="fp16", batch=64, mode="compiled"
    )
    return [
        Figure(
            name="power of ResNet-18 in fp16 on an A100",
            measured=a100.power_w,
            promised=400.0,
            unit="W",
            how="batch 64, compiled",
        ),
        *(
            Figure(name=name, measured=most, promised=limit, unit="x", how=f"{how}; most: {where}")
            for name, (most, where), limit, how in rows
        ),
        Figure(
            name="cells whose energy is not above zero",
            measured=found.without_energy,
            promised=0,
            unit="cells",
            how=cells,
        ),
        Figure(
            name="models without any estimate",
            measured=len(found.without_cells),
            promised=2,  # one that computes nothing, one that repeats a recording
            unit=f"of {num_models}",
            how=f"{nothing}; {found.refused.total()} cells of others are refused, reasons above",
        ),
    ]


def checked(name: str, turn: int) -> Found:
    """Check one model; ``turn`` chooses the precisions whose parts are summed."""
    found = Found()
    kept: dict[object, Totals] = {}
    for batch, precision in product(_BATCHES, PRECISIONS):
        able = [each for each in PROCESSORS.values() if supports(precision, each)]
        where = f"{name}, {precision}, batch {batch}"
        try:
            traced = trace_model(name, batch=batch, precision=precision)
        except ConfigError as reason:
            found.refused[f"{name}, {precision}: {reason}"] += len(able)
            continue
        for mode in _MODES:
            able, totals_now = _totals(traced, able, mode, found)
            if totals_now is None:
                break
            _check_totals(totals_now, able, f"{where}, {mode}", found)
            once = _per_execution(totals_now, traced)
            small = kept.setdefault((precision, mode, len(able), _operators(traced)), once)
            if small is not once:
                shrinkage = estimate_laws.largest_shrinkage(small, once)
                found.shrinkage = max(found.shrinkage, (shrinkage, f"{where}, {mode}"))
        found.num_cells += len(able)
        _check_parts(traced, able, turn, found)
    return found


def _per_execution(found_here: Totals, traced: TracedModel) -> Totals:
    """Return ``found_here`` with energies of one execution: larger batches may need fewer."""
    counts = [phase.count for phase in traced.phases]
    return replace(found_here, energy_j=found_here.energy_j / counts)


def _operators(traced: TracedModel) -> tuple[str, ...]:
    """Return what is launched; a batch of one may be padded, and so launch more."""
    return tuple(each.name for phase in traced.phases for each in phase.program.operators)


def _totals(
    traced: TracedModel, processors: Sequence[Processor], mode: Mode, found: Found
) -> tuple[list[Processor], Totals | None]:
    """Return the totals, and of which processors: those that have every format of ``traced``."""
    able = list(processors)
    try:
        return able, totals(traced, able, mode=mode)
    except ConfigError:
        able = [each for each in processors if _has_formats(traced, each, found)]
    return able, totals(traced, able, mode=mode) if able else None


def _has_formats(traced: TracedModel, processor: Processor, found: Found) -> bool:
    try:
        totals(traced, [processor])
    except ConfigError as error:
        reason = str(error).partition(", which ")[0]  # ... lacks
        found.refused[f"{traced.name}, {traced.precision}: {reason}"] += 1
        return False
    return True


def _check_totals(
    found_here: Totals, processors: Sequence[Processor], where: str, found: Found
) -> None:
    found.cap = max(found.cap, (estimate_laws.cap_share(found_here, processors), where))
    found.roofline = max(found.roofline, (estimate_laws.roofline_share(found_here), where))
    found.without_energy += int((found_here.energy_j <= 0).any(axis=(1, 2)).sum())


def _check_parts(
    traced: TracedModel, processors: Sequence[Processor], turn: int, found: Found
) -> None:
    """Check the parts on those processors whose turn it is with this precision and batch."""
    places = {key: place for place, key in enumerate(PROCESSORS)}
    for processor in processors:
        known = [precision for precision in PRECISIONS if supports(precision, processor)]
        choices = list(product(known, _BATCHES))
        precision, batch = choices[(turn + places[processor.key]) % len(choices)]
        if (precision, batch) == (traced.precision, traced.batch):
            mode = _MODES[turn % len(_MODES)]
            error = estimate_laws.partition_error(
                estimate(traced, processor, mode=mode, events=True)
            )
            where = f"{traced.name}, {processor.key}, {precision}, batch {batch}, {mode}"
            found.partition = max(found.partition, (error, where))
            found.num_partitions += 1
