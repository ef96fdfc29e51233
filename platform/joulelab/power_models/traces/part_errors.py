"""How far energies of held-out recordings, and of parts of them, are off.

What scatters from step to step cancels in a long recording and not in a short one, so that the
energy of a plan is as uncertain as that of parts of recordings that are about as long.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.power_models.groups import group_quantile
from joulelab.power_models.runs import Array, Flags, Index, Names
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule

Predict = Callable[[Schedule], Array]
"""Returns the power of each step."""

_MOST_PARTS = 50
"""How many parts of one length are taken of a recording, spread over it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartErrors:
    """Errors of whole recordings, and of parts of 1, 2, 4, ... steps; each of shape ``(n,)``."""

    recording: Names  # which recording it is of
    num_steps: Index  # how long it is
    is_whole: Flags  # whether it is the whole recording
    log_error: Array  # log of measured over predicted energy

    @classmethod
    def of(cls, held_out: Sequence[tuple[LoadTrace, Predict]]) -> "PartErrors":
        """Compare recordings with what models that were not shown them predict for each part."""
        names, lengths, errors, sizes = [], [], [], []
        for trace, predict in held_out:
            for start, stop in _parts(len(trace.schedule)):
                expected_w = predict(trace.schedule.part(start, stop)).sum()
                names.append(trace.name)
                lengths.append(stop - start)
                errors.append(np.log(trace.power_w[start:stop].sum() / expected_w))
                sizes.append(len(trace.schedule))
        return cls(
            recording=np.array(names),
            num_steps=np.array(lengths, dtype=np.intp),
            is_whole=np.array(lengths) == np.array(sizes),
            log_error=np.array(errors),
        )

    def half_width(self, level: float, num_steps: int) -> float:
        """Return the half width, in logs, of the interval of the energy of so many steps.

        By parts of the next lower power of two, and by whole recordings where these are shorter.
        Raises ConfigError if ``level`` is not between 0 and 1, or too high for so few recordings.
        """
        longest = int(self.num_steps.max())
        length = longest if num_steps >= longest else 2 ** (num_steps.bit_length() - 1)
        chosen = np.where(self.is_whole, self.num_steps <= length, self.num_steps == length)
        scores = np.abs(self.log_error[chosen])
        return group_quantile(scores, self.recording[chosen], level, "recordings")


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Yield where parts of a recording of ``size`` steps start and stop, the whole one last."""
    length = 1
    while length < size:
        starts = np.linspace(0, size - length, min(size // length, _MOST_PARTS)).round()
        yield from ((int(start), int(start) + length) for start in starts)
        length *= 2
    yield 0, size
