"""What would save energy or memory, found by estimating the same work again in other ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import cast

from joulelab.core.number_format import BITS
from joulelab.errors import ConfigError
from joulelab.estimator.api import Fit, phases_memory
from joulelab.estimator.estimate import Component, Estimate, Mode
from joulelab.estimator.pricing import predict
from joulelab.estimator.question import (
    Cell,
    Opportunity,
    Progress,
    Question,
    Tracer,
    clock_grid,
    traced,
)
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import TracedModel

Change = Mapping[str, str | int]
"""Settings that differ: ``mode``, ``batch``, ``precision`` or ``sm_clock_mhz``."""

EstimateAgain = Callable[..., Estimate]
"""Estimates the same work with a :data:`Change` given as keyword arguments."""

_BATCH_FACTORS = (16, 8, 4, 2)
_WORSE = 1.05
"""Energy of a sample over that of the best batch so far from which no smaller one is traced."""
_LEAST_SAVING = 0.01
"""Share of the energy, or of the peak, that a change must save to be worth a word."""
_CLOCKS_TO_TRY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lever:
    """Settings of one kind, of which the best one is an opportunity."""

    changes: tuple[Change, ...]
    ends_at: float = inf  # energy over that of the best so far at which no more are tried
    title: Callable[[Estimate], str]
    reason: Callable[[Estimate, Estimate], str]


def with_opportunities(question: Question, cell: Cell, *, progress: Progress | None = None) -> Cell:
    """Return ``cell`` with what would save energy, found by predicting it again in other ways."""
    found = cell.estimate
    if found is None:
        return cell
    tracer = Tracer(question, progress)

    def again(**change: str | int) -> Estimate:
        changed = replace(
            cell,
            precision=str(change.get("precision", cell.precision)),
            batch=int(change.get("batch", cell.batch)),
        )
        point = question.point
        if "sm_clock_mhz" in change:
            point = replace(point, sm_clock_mhz=int(change["sm_clock_mhz"]))
        mode = cast("Mode", change.get("mode", question.mode))
        return predict.estimate(
            tracer.of(changed, mode),
            changed.processor,
            mode=mode,
            point=point,
            num_devices=question.num_devices,
        )

    best_mhz = _frugal_clock(question, tracer.of(cell), cell.processor)
    return replace(cell, opportunities=opportunities(found, again, clocks_mhz=(best_mhz,)))


def _frugal_clock(question: Question, traced: TracedModel, processor: Processor) -> int:
    clocks = clock_grid(processor, num=_CLOCKS_TO_TRY)
    found = predict.totals(
        traced,
        [processor],
        mode=question.mode,
        points=[replace(question.point, sm_clock_mhz=clock) for clock in clocks],
        num_devices=question.num_devices,
    )
    return clocks[int(found.total_energy_j[0].argmin())]


def opportunities(
    estimate: Estimate,
    estimate_again: EstimateAgain,
    *,
    clocks_mhz: Sequence[int] = (),
) -> tuple[Opportunity, ...]:
    """Return what saves energy per unit of work, the largest saving first.

    Every saving is the difference of two estimates. A change that is refused with a
    ``ConfigError``, such as a precision that the device lacks, is left out, and so is one that
    does not fit the memory. Of batches, of precisions of one width and of clocks, the one that
    saves most is given. Batches are 2 to 16 times that of ``estimate``, precisions narrower.
    """
    levers = (
        *_mode_levers(estimate.mode),
        _batch_lever(estimate.batch),
        *_precision_levers(estimate.precision),
        _Lever(
            changes=tuple({"sm_clock_mhz": clock_mhz} for clock_mhz in clocks_mhz),
            title=lambda after: f"Run at {after.point.sm_clock_mhz} MHz",
            reason=lambda before, _: (
                f"in {_slack(before):.0%} of the time the device waits for memory or launches, and "
                "the core clock hardly matters"
            ),
        ),
    )
    found = [_best(lever, estimate, estimate_again) for lever in levers]
    worthwhile = [one for one in found if one is not None and one.energy_saved >= _LEAST_SAVING]
    return tuple(sorted(worthwhile, key=lambda one: -one.energy_saved))


def _best(lever: _Lever, before: Estimate, estimate_again: EstimateAgain) -> Opportunity | None:
    best = None
    for change in lever.changes:
        try:
            after = estimate_again(**change)
        except ConfigError:
            continue
        found = _opportunity(lever, change, before, after) if after.fits else None
        if found and (best is None or found.energy_saved > best.energy_saved):
            best = found
        elif found and best and 1 - found.energy_saved > lever.ends_at * (1 - best.energy_saved):
            break
    return best


def _opportunity(lever: _Lever, change: Change, before: Estimate, after: Estimate) -> Opportunity:
    work, work_after = _work(before), _work(after)
    return Opportunity(
        title=lever.title(after),
        change=change,
        energy_saved=1 - (after.energy_j / work_after) / (before.energy_j / work),
        time_saved=1 - (after.latency_s / work_after) / (before.latency_s / work),
        reason=lever.reason(before, after),
    )


def _mode_levers(mode: Mode) -> list[_Lever]:
    graph = _Lever(
        changes=({"mode": "graph"},),
        title=lambda _: "Capture the kernels in a graph",
        reason=lambda before, _: (
            f"the device waits for launches in {before.launch_share:.0%} of the time, and "
            f"{_share(before, 'static'):.0%} of the energy goes into being on"
        ),
    )
    compiled = _Lever(
        changes=({"mode": "compiled"},),
        title=lambda _: "Compile the network",
        reason=lambda before, after: (
            f"{_kernels(before)} kernels become {_kernels(after)}, which "
            f"{_cut(before, after, 'memory')} the energy of moving data, "
            f"{_share(before, 'memory'):.0%} of all"
        ),
    )
    return {"eager": [graph, compiled], "graph": [compiled], "compiled": [], "engine": []}[mode]


def _batch_lever(batch: int) -> _Lever:
    return _Lever(
        changes=tuple({"batch": factor * batch} for factor in _BATCH_FACTORS),
        ends_at=_WORSE,
        title=lambda after: f"Work on {after.batch} samples at a time",
        reason=lambda before, after: (
            f"samples share the {_share(before, 'static'):.0%} of the energy that goes into being "
            f"on and the weights in the {_share(before, 'memory'):.0%} that moves data; one "
            f"execution takes {after.latency_s / before.latency_s:.2g} times as long"
        ),
    )


def _precision_levers(precision: str) -> list[_Lever]:
    widths = sorted({width for width in BITS.values() if width < BITS[precision]})
    return [
        _Lever(
            changes=tuple({"precision": name} for name, width in BITS.items() if width == bits),
            title=lambda after: f"Compute in {after.precision}",
            reason=lambda before, after: (
                f"narrower numbers {_cut(before, after, 'compute')} the energy of operations, "
                f"{_share(before, 'compute'):.0%} of all, and {_cut(before, after, 'memory')} "
                f"that of moving data, {_share(before, 'memory'):.0%}; what they do to quality is "
                "not estimated"
            ),
        )
        for bits in widths
    ]


def _work(estimate: Estimate) -> float:
    return sum(phase.work for phase in estimate.phases)


def _component_j(estimate: Estimate, component: Component) -> float:
    return sum(phase.energy.of(component) for phase in estimate.phases)


def _share(estimate: Estimate, component: Component) -> float:
    return _component_j(estimate, component) / estimate.energy_j


def _cut(before: Estimate, after: Estimate, component: Component) -> str:
    before_j = _component_j(before, component) / _work(before)
    after_j = _component_j(after, component) / _work(after)
    if before_j in (0, after_j):
        return "leave"
    verb = "cut" if after_j < before_j else "raise"
    return f"{verb} by {abs(1 - after_j / before_j):.0%}"


def _kernels(estimate: Estimate) -> int:
    return sum(group.count for phase in estimate.phases for group in phase.groups)


def _slack(estimate: Estimate) -> float:
    """Return the share of the time that memory or launches bound."""
    bound_s = sum(
        group.elapsed_s
        for phase in estimate.phases
        for group in phase.groups
        if group.bound in ("memory", "launch")
    )
    return bound_s / estimate.latency_s


_TITLES = {
    "checkpointed": "Gradient checkpointing of repeated blocks",
    "in-place": "Activation functions in place",
}
_STATES = {
    "SGD with momentum": (0.5, "one value of state per parameter, not two"),
    "SGD without momentum": (1.0, "no state, not two values per parameter"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHint:
    """A change that is predicted to save memory."""

    title: str
    saved_b: float  # bytes of the peak of the phase that needs most
    reason: str


def memory_hints(question: Question, fit: Fit, *, progress: Progress) -> tuple[MemoryHint, ...]:
    """Return what saves memory of ``fit``, the most first, each on its own.

    Changes of the network are traced, those of the optimizer counted; AdamW is what is traced. A
    change that the network does not allow, as in-place work on what the backward pass needs, is
    left out.
    """
    found = [*_of_network(question, fit, progress), *_of_optimizer(fit)]
    least_b = _LEAST_SAVING * fit.worst.peak_b
    worthwhile = [hint for hint in found if hint.saved_b >= least_b]
    return tuple(sorted(worthwhile, key=lambda hint: -hint.saved_b))


def _of_network(question: Question, fit: Fit, progress: Progress) -> Iterator[MemoryHint]:
    remedies: Sequence[str] = ("checkpointed", "in-place") if question.training else ("in-place",)
    usual = _operators(_traced(question, fit))
    for remedy in remedies:
        progress(f"Tracing {fit.model}, {remedy}")
        try:
            changed = _traced(question, fit, remedy)
        except ConfigError:
            continue
        phases = phases_memory(changed, fit.processor)
        peak_b = max(memory.peak_b for memory in phases.values())
        kernels = _operators(changed) / usual
        cost = f"{kernels - 1:+.0%} kernels, which compute again" if kernels != 1 else "same work"
        yield MemoryHint(title=_TITLES[remedy], saved_b=fit.worst.peak_b - peak_b, reason=cost)


def _traced(question: Question, fit: Fit, remedy: str = "") -> TracedModel:
    return traced(question, fit.model, precision=fit.precision, batch=fit.batch, remedy=remedy)


def _operators(model: TracedModel) -> int:
    return sum(len(phase.program.operators) * phase.count for phase in model.phases)


def _of_optimizer(fit: Fit) -> Iterator[MemoryHint]:
    for name, (share, reason) in _STATES.items():
        yield MemoryHint(
            title=f"{name}, not AdamW", saved_b=share * fit.worst.optimizer_b, reason=reason
        )
