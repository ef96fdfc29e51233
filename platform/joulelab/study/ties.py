"""What makes the GPUs of a study comparable: that each of a product measures the same sentinel."""

from collections.abc import Mapping, Sequence

from joulelab.core.measurement import Measurement
from joulelab.core.plan import again
from joulelab.core.trial import Trial


def ties(
    trials: Sequence[Trial],
    rest: Sequence[Trial],
    known: Sequence[Measurement],
    products: Mapping[str, str],
) -> tuple[list[Trial], frozenset[str]]:
    """Return sentinels to be measured besides, so that every GPU measures one, and who has none.

    GPUs are compared by what all of them measured, and what only one of them measured has no
    figure. The plan of a study does not know how many GPUs will carry it out, nor whether it
    will go on on others.

    Args:
        trials: All trials of the study; without a sentinel among them none is added.
        rest: Those that are left to do.
        known: What its results folder holds.
        products: GPUs that carry it out now, and their products, by UUID.
    """
    added: list[Trial] = []
    untied: set[str] = set()
    for name in dict.fromkeys(trial.device_name for trial in trials):
        uuids = [uuid for uuid, product in products.items() if name in (None, product)]
        planned = [trial for trial in trials if trial.sentinel and trial.device_name == name]
        left = [trial for trial in rest if trial.device_name == name]
        if planned and left:
            tied = {m.device.uuid for m in known if m.sentinel and m.settled}
            lacking = set(uuids) - tied
            added += _missing(planned, left, known, len(lacking))
            untied |= lacking
    return added, frozenset(untied)


def _missing(
    planned: Sequence[Trial], rest: Sequence[Trial], known: Sequence[Measurement], num_untied: int
) -> list[Trial]:
    """Return further repeats of a sentinel, so that there is one for each GPU without."""
    num = min(num_untied, len(rest)) - sum(trial.sentinel for trial in rest)
    measured = [m.repeat for m in known if m.sentinel]
    first = 1 + max([*(trial.repeat for trial in planned), *measured])
    return [again(planned[0], repeat) for repeat in range(first, first + max(num, 0))]
