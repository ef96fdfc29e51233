"""What would save memory, found by tracing the same work again in other ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from joulelab.errors import ConfigError
from joulelab.estimator.api import Fit, phases_memory
from joulelab.estimator.question import Progress, Question, traced
from joulelab.tracing.program import TracedModel

_LEAST_SAVING = 0.01
"""Share of the peak that a change must save to be worth a word."""
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
    usual = _kernels(_traced(question, fit))
    for remedy in remedies:
        progress(f"Tracing {fit.model}, {remedy}")
        try:
            changed = _traced(question, fit, remedy)
        except ConfigError:
            continue
        phases = phases_memory(changed, fit.processor)
        peak_b = max(memory.peak_b for memory in phases.values())
        kernels = _kernels(changed) / usual
        cost = f"{kernels - 1:+.0%} kernels, which compute again" if kernels != 1 else "same work"
        yield MemoryHint(title=_TITLES[remedy], saved_b=fit.worst.peak_b - peak_b, reason=cost)


def _traced(question: Question, fit: Fit, remedy: str = "") -> TracedModel:
    return traced(question, fit.model, precision=fit.precision, batch=fit.batch, remedy=remedy)


def _kernels(model: TracedModel) -> int:
    return sum(len(phase.program.operators) * phase.count for phase in model.phases)


def _of_optimizer(fit: Fit) -> Iterator[MemoryHint]:
    for name, (share, reason) in _STATES.items():
        yield MemoryHint(
            title=f"{name}, not AdamW", saved_b=share * fit.worst.optimizer_b, reason=reason
        )
