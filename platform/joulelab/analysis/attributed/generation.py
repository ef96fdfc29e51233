"""What whole answers take: a prompt that is read, and the tokens that follow it, by component."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from joulelab.attribution.attribution import Attribution, Phase
from joulelab.attribution.variants import DECODE

PREFILL = "prefill"

Pairs = Mapping[str, np.ndarray]
"""Joules of each component and their standard uncertainties, as arrays of two."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """One sequence of a batch, read and answered."""

    tokens: int  # tokens that were generated
    # What each component takes; uncertainties of prompt and tokens are added, since those of tokens
    # after several contexts go together.
    parts: Pairs
    prompt_j: float  # what reading the prompt takes of it

    @property
    def energy_j(self) -> float:
        """Energy of all of it, in joules."""
        return float(sum(joules for joules, _ in self.parts.values()))


def answers(found: Attribution) -> tuple[Answer, ...]:
    """Return answers that end where the decodes ended that were attributed, in order of length.

    What a token takes is interpolated between the middles of these decodes, and constant before
    the first and after the last. Empty where no context was asked for, or no prompt is read.
    """
    prompt, new = found.knobs.get("prompt_tokens"), found.knobs.get("new_tokens")
    phases = {phase.phase: phase for phase in found.phases}
    if not (isinstance(prompt, int) and isinstance(new, int) and {PREFILL, DECODE} <= set(phases)):
        return ()
    if not found.contexts:
        return ()
    decodes = dict(sorted({**found.contexts, prompt: phases[DECODE]}.items()))
    read = {name: prompt * pair for name, pair in _per_unit(phases[PREFILL]).items()}
    each = {tokens + new / 2: _per_unit(phase) for tokens, phase in decodes.items()}
    return tuple(
        Answer(
            tokens=stop - prompt,
            parts=_added(read, each, np.arange(prompt, stop)),
            prompt_j=float(sum(joules for joules, _ in read.values())),
        )
        for stop in (tokens + new for tokens in decodes if tokens >= prompt)
    )


def _per_unit(phase: Phase) -> Pairs:
    work = phase.profile.work
    return {
        share.name: np.array([share.energy_j, share.energy_u_j]) / work
        for share in phase.by_component
    }


def _added(read: Pairs, each: Mapping[float, Pairs], before: np.ndarray) -> Pairs:
    """Return what was read with what tokens take that have ``before`` others before them."""
    names = dict.fromkeys(name for pairs in (read, *each.values()) for name in pairs)
    nothing, found = np.zeros(2), {}
    for name in names:
        lines = np.array([pairs.get(name, nothing) for pairs in each.values()]).T
        tokens = [np.interp(before, list(each), line).sum() for line in lines]
        found[name] = read.get(name, nothing) + tokens
    return found
