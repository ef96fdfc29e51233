"""Words about estimates: what a cell costs, which of several is best, and how sure it is."""

from collections.abc import Iterable, Mapping, Sequence

from joulelab.analysis.quantities import brief
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.api import Fit
from joulelab.estimator.estimate import Bound, Confidence, Estimate, PhaseEstimate, time_shares
from joulelab.estimator.pricing.memory import MemoryEstimate
from joulelab.estimator.question import Cell, Curve, Opportunity

BOUND_WORDS: Mapping[Bound, str] = {
    "compute": "operations",
    "memory": "moving data",
    "launch": "waiting for launches",
    "power": "the power cap",
}

_NAMES = ("model", "device", "precision", "batch")

TIER_WORDS = {
    "A": "calibrated on this device",
    "B": "calibrated on devices of its class",
    "C": "from its data sheet alone",
    "D": "projected",
}


OnProcessor = Cell | Fit | Curve  # what is predicted of a model on a processor


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


def differing(cells: Sequence[OnProcessor], *, always: str) -> list[str]:
    """Return the names of :data:`_NAMES` in which ``cells`` differ, and ``always``."""
    return [n for n in _NAMES if n == always or len({value_of(cell, n) for cell in cells}) > 1]


def varying(cells: Sequence[Cell]) -> list[str]:
    """Return what tells ``cells`` apart; the device does always."""
    names = differing(cells, always="device")
    if len({value_of(cell, "mode") for cell in cells if cell.estimate is not None}) > 1:
        names.append("mode")
    several = any(cell.estimate and len(cell.estimate.phases) > 1 for cell in cells)
    return [*names, "phase"] if several else names


def value_of(cell: OnProcessor, name: str) -> str:
    """Return what a cell, a fit or a curve has in the column ``name``."""
    if name == "mode":
        return cell.estimate.mode if isinstance(cell, Cell) and cell.estimate else ""
    if name != "device":
        return str(getattr(cell, name, ""))
    return _times(cell, cell.processor.key) if isinstance(cell, Cell) else cell.processor.key


def setting_words(cell: Cell) -> str:
    """Say how it runs: ``"fp16, batch 8, eager, 1095 MHz"``."""
    settings = [cell.precision, f"batch {cell.batch}"]
    if cell.estimate is not None:
        settings.append(cell.estimate.mode)
        settings += point_words(cell.estimate.point)
    return ", ".join(settings)


def asked(found: OnProcessor) -> dict[str, object]:
    """Return what was asked for by the names of columns."""
    return {
        "model": found.model,
        "device": found.processor.key,
        "precision": found.precision,
        "batch": found.batch,
    }


def point_words(point: OperatingPoint) -> list[str]:
    """Say which settings differ from the default."""
    clock = [] if point.sm_clock_mhz is None else [f"{point.sm_clock_mhz:g} MHz"]
    limit = [] if point.power_limit_w is None else [f"{point.power_limit_w:g} W limit"]
    return clock + limit


def _times(cell: Cell, name: str) -> str:
    num = 1 if cell.estimate is None else cell.estimate.num_devices
    return name if num == 1 else f"{num} x {name}"


def bound_shares(phases: Iterable[PhaseEstimate]) -> dict[Bound, float]:
    """Return the share of the time of ``phases`` that each bound sets, largest first."""
    return time_shares(
        (bound, share * phase.latency_s)
        for phase in phases
        for bound, share in phase.bound_shares.items()
    )


def time_words(estimate: Estimate) -> str:
    """Say what sets most of the time."""
    shares = bound_shares(estimate.phases)
    if not shares:
        return "It runs nothing on the device."
    bound, share = next(iter(shares.items()))
    return f"{share:.0%} of the time is set by {BOUND_WORDS[bound]}."


def memory_words(memory: MemoryEstimate) -> str:
    """Say whether it fits, and by how much it does not."""
    has = brief(memory.capacity_b, "B")
    needs = brief(memory.peak_b, "B")
    if memory.fits:
        return f"fits: needs {needs} of {has}"
    more = brief(memory.peak_b - memory.capacity_b, "B")
    return f"does not fit: needs {more} more than the {has} there are"


def confidence_words(confidence: Confidence) -> str:
    """Say how far to trust an estimate, with the errors found on held-out measurements."""
    basis = "the host is not known" if confidence.on_unknown_host else TIER_WORDS[confidence.tier]
    sentence = f"Confidence {confidence.tier}, {basis}; {_errors(confidence)}"
    note = confidence.note.rstrip(".")
    return f"{sentence}. {note[:1].upper()}{note[1:]}." if note else f"{sentence}."


def data_words(estimate: Estimate) -> str:
    """Say what the operands' data alone may change."""
    low_j, high_j = estimate.data_energy_j
    low, high = (brief(value, "J") for value in (low_j, high_j))
    return f"Operands' data alone may take the energy from {low} (zeros) to {high} (random)."


def unknown_words(estimate: Estimate) -> str:
    """Name the operators whose operations are not counted; empty if all are."""
    if not estimate.without_formula:
        return ""
    shares = sorted(estimate.without_formula.items(), key=lambda item: -item[1])
    named = ", ".join(f"{name} ({share:.1%} of the bytes)" for name, share in shares)
    return f"No formula, so that only their bytes are counted: {named}. --strict refuses them."


def change_words(opportunity: Opportunity) -> tuple[str, str]:
    """Say how energy and time per unit of work change."""
    energy, time = -opportunity.energy_saved, -opportunity.time_saved
    return f"{energy:+.0%} energy", f"{time:+.0%} time"


def _cost(estimate: Estimate, phase: PhaseEstimate) -> str:
    time = brief(phase.time_per_unit_s, f"s/{estimate.unit}")
    energy = brief(phase.energy_per_unit_j, f"J/{estimate.unit}")
    name = f"{phase.phase} " if len(estimate.phases) > 1 else ""
    return f"{name}{time}, {energy} at {brief(phase.power_w, 'W')}"


def host_words(estimate: Estimate) -> str:
    """Say what other hosts, or others on this one, would make of it; nothing where it is small."""
    found = estimate.host_range
    if found is None:
        return ""
    waits = f"The device waits for launches {estimate.launch_share:.0%} of the time"
    (low_s, high_s), (low_j, high_j) = (
        [brief(one, unit) for one in pair]
        for pair, unit in ((found.latency_s, "s"), (found.energy_j, "J"))
    )
    if found.disturbed is None:
        return (
            f"{waits}: {low_s} to {high_s} and {low_j} to {high_j} over known hosts; "
            "joulelab calibrate --host measures yours, for --host."
        )
    return (
        f"{waits}, on cores that nobody else slows. While others do, as for {found.disturbed:.0%} "
        f"of the time when the host was measured, it takes up to {high_s} and {high_j}."
    )


def trust_sentences(estimate: Estimate) -> dict[str, str]:
    """Say how sure an estimate is, each ``""`` where there is nothing to say.

    ``unknown``: operators that are not counted. ``data``: what the operands' data may change.
    ``hosts``: what other hosts would make of it. ``confidence``: how far estimates were off.
    """
    return {
        "unknown": unknown_words(estimate),
        "data": data_words(estimate),
        "hosts": host_words(estimate),
        "confidence": confidence_words(estimate.confidence),
    }


def bound_words(phase: PhaseEstimate) -> str:
    """Say what sets the time: ``"memory 80%, launch 20%"``."""
    return ", ".join(f"{bound} {share:.0%}" for bound, share in phase.bound_shares.items())


def phase_facts(phase: PhaseEstimate, estimate: Estimate) -> dict[str, str]:
    """Say what is known of a phase besides its time and energy, by the name of each fact."""
    width, cap_w = phase.concurrency, estimate.cap_w * estimate.num_devices
    parts = phase.memory.parts.items()
    made_of = ", ".join(f"{name} {brief(part_b, 'B')}" for name, part_b in parts)
    held = phase.throttled_fraction
    return {
        "power": f"{phase.power_w:.3g} W on average, at most {phase.peak_power_w:.3g} W of "
        f"{cap_w:g} W" + f"; the cap holds the clock down {held:.0%} of the time" * (held > 0),
        "roofline": f"{brief(phase.roofline_s, 's')} at peak rates, "
        f"{phase.roofline_s / phase.latency_s:.0%} of the time",
        "in use": f"kernels {phase.device_share:.0%} of the time; of peak rates, units "
        f"{phase.unit_share:.1%} and memory {phase.memory_share:.1%}",
        "wasted": _wasted(phase),
        "memory": f"{memory_words(phase.memory)}: {made_of}",
        "kernels": f"{width.num_groups} in all, {width.critical_path} on the longest chain, "
        f"{width.mean_width:.2g} side by side on average, at most {width.max_width}",
    }


def _wasted(phase: PhaseEstimate) -> str:
    """Say what energy goes into being on for longer than the work needs."""
    wasted_j = phase.waiting_j + phase.idle_j
    return (
        f"{brief(wasted_j, 'J')}, {wasted_j / phase.energy.total_j:.0%} of the energy, goes into "
        f"being on: {brief(phase.waiting_j, 'J')} while waiting for launches, "
        f"{brief(phase.idle_j, 'J')} in kernels that take longer than peak rates need"
    )


def _errors(confidence: Confidence) -> str:
    if confidence.time_error is None and confidence.energy_error is None:
        return "never compared with a measurement"
    found = {"time": confidence.time_error, "energy": confidence.energy_error}
    errors = [f"{error:.0%} of {name}" for name, error in found.items() if error is not None]
    points = f"{confidence.num_points} held-out measurements"
    return f"mean error {' and '.join(errors)} over {points}"


def cell_name(cell: Cell, cells: Sequence[Cell]) -> str:
    """Name a cell by what sets it apart from the others: ``"NVIDIA H200, batch 8"``."""
    names = differing(cells, always="device")
    several = len({value_of(each, "device") for each in cells}) > 1
    kept = [n for n in names if n != "device" or several] or ["device"]
    return ", ".join(("batch " * (n == "batch")) + value_of(cell, n) for n in kept)


def last_phase(cell: Cell) -> PhaseEstimate:
    """Return the phase by which cells are compared."""
    return estimate_of(cell).phases[-1]


def estimate_of(cell: Cell) -> Estimate:
    """Return the answer of a cell that has one."""
    if cell.estimate is None:
        raise ConfigError(f"There is no estimate to compare: {cell.problem}")
    return cell.estimate
