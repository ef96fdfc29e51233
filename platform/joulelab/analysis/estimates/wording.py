"""Estimates in sentences, the same in the terminal and on the page."""

from collections.abc import Mapping

from joulelab.analysis.quantities import quantity
from joulelab.core.point import OperatingPoint
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import (
    Bound,
    Confidence,
    Estimate,
    MemoryEstimate,
    PhaseEstimate,
)
from joulelab.estimator.opportunities import Opportunity

BOUND_WORDS: Mapping[Bound, str] = {
    "compute": "operations",
    "memory": "moving data",
    "launch": "waiting for launches",
    "power": "the power cap",
}

TIER_WORDS = {
    "A": "calibrated on this device",
    "B": "calibrated on devices of its class",
    "C": "from its data sheet alone",
    "D": "projected",
}


def headline(cell: Cell) -> str:
    """Say what the model costs there, in one sentence."""
    estimate = cell.estimate
    name = f"{cell.model} on {device_words(cell)}, {setting_words(cell)}"
    if estimate is None:
        return f"{name}: {cell.problem}"
    costs = "; ".join(_cost(estimate, phase) for phase in estimate.phases)
    return f"{name}: {costs}. {time_words(estimate)}"


def device_words(cell: Cell) -> str:
    """Name the processors: ``"2 x NVIDIA H200"``."""
    return _times(cell, cell.processor.product_name)


def device_key(cell: Cell) -> str:
    """Name the processors as the catalogue does: ``"2 x h200_sxm"``."""
    return _times(cell, cell.processor.key)


def setting_words(cell: Cell) -> str:
    """Say how it runs: ``"fp16, batch 8, eager, 1095 MHz"``."""
    said = [cell.precision, f"batch {cell.batch}"]
    if cell.estimate is not None:
        said.append(cell.estimate.mode)
        said += point_words(cell.estimate.point)
    return ", ".join(said)


def point_words(point: OperatingPoint) -> list[str]:
    """Say which settings differ from the default."""
    clock = [] if point.sm_clock_mhz is None else [f"{point.sm_clock_mhz:g} MHz"]
    limit = [] if point.power_limit_w is None else [f"{point.power_limit_w:g} W limit"]
    return clock + limit


def bound_shares(estimate: Estimate) -> dict[Bound, float]:
    """Return the share of the latency that each bound sets, largest first."""
    times: dict[Bound, float] = {}
    for phase in estimate.phases:
        for bound, share in phase_bound_shares(phase).items():
            times[bound] = times.get(bound, 0.0) + share * phase.latency_s
    return _shares(times)


def phase_bound_shares(phase: PhaseEstimate) -> dict[Bound, float]:
    """Return the share of the phase's time that each bound sets, largest first."""
    times: dict[Bound, float] = {}
    for group in phase.groups:
        times[group.bound] = times.get(group.bound, 0.0) + group.elapsed_s
    return _shares(times)


def _times(cell: Cell, name: str) -> str:
    num = 1 if cell.estimate is None else cell.estimate.num_devices
    return name if num == 1 else f"{num} x {name}"


def _shares(times: Mapping[Bound, float]) -> dict[Bound, float]:
    total_s = sum(times.values())
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return {bound: time_s / total_s for bound, time_s in ordered if total_s > 0}


def time_words(estimate: Estimate) -> str:
    """Say what sets most of the time."""
    shares = bound_shares(estimate)
    if not shares:
        return "It runs nothing on the device."
    bound, share = next(iter(shares.items()))
    return f"{share:.0%} of the time is set by {BOUND_WORDS[bound]}."


def memory_words(memory: MemoryEstimate) -> str:
    """Say whether it fits, and by how much it does not."""
    has = quantity(memory.capacity_b, "B", digits=3)
    needs = quantity(memory.peak_b, "B", digits=3)
    if memory.fits:
        return f"fits: needs {needs} of {has}"
    more = quantity(memory.peak_b - memory.capacity_b, "B", digits=3)
    return f"does not fit: needs {more} more than the {has} there are"


def confidence_words(confidence: Confidence) -> str:
    """Say how far to trust an estimate, with the errors found on held-out measurements."""
    said = f"Confidence {confidence.tier}, {TIER_WORDS[confidence.tier]}; {_errors(confidence)}"
    note = confidence.note.rstrip(".")
    return f"{said}. {note[:1].upper()}{note[1:]}." if note else f"{said}."


def data_words(estimate: Estimate) -> str:
    """Say what the operands' data alone may change."""
    low_j, high_j = estimate.data_energy_j
    low, high = (quantity(value, "J", digits=3) for value in (low_j, high_j))
    return f"Operands' data alone may take the energy from {low} (zeros) to {high} (random)."


def unknown_words(estimate: Estimate) -> str:
    """Name the operators whose operations are not counted; empty if all are."""
    if not estimate.without_formula:
        return ""
    shares = sorted(estimate.without_formula.items(), key=lambda item: -item[1])
    named = ", ".join(f"{name} ({100 * share:.2g} % of the bytes)" for name, share in shares)
    return f"No formula, so that only their bytes are counted: {named}. --strict refuses them."


def change_words(opportunity: Opportunity) -> tuple[str, str]:
    """Say how energy and time per unit of work change."""
    energy, time = -opportunity.energy_saved, -opportunity.time_saved
    return f"{energy:+.0%} energy", f"{time:+.0%} time"


def per_work(phase: PhaseEstimate, unit: str) -> tuple[str, str]:
    """Write time and energy per unit of work."""
    time = quantity(phase.latency_s / phase.work, f"s/{unit}", digits=3)
    return time, quantity(phase.energy.total_j / phase.work, f"J/{unit}", digits=3)


def _cost(estimate: Estimate, phase: PhaseEstimate) -> str:
    time, energy = per_work(phase, estimate.unit)
    name = f"{phase.phase} " if len(estimate.phases) > 1 else ""
    return f"{name}{time}, {energy} at {quantity(phase.power_w, 'W', digits=3)}"


def _errors(confidence: Confidence) -> str:
    if confidence.time_error is None and confidence.energy_error is None:
        return "never compared with a measurement"
    found = {"time": confidence.time_error, "energy": confidence.energy_error}
    said = [f"{error:.0%} of {name}" for name, error in found.items() if error is not None]
    points = f"{confidence.num_points} held-out measurements"
    return f"mean error {' and '.join(said)} over {points}"
