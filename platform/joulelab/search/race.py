"""Repeats where the decision is open, and nowhere else.

Screening measures most configurations once. Those that cannot be told apart from the best then
race: each is repeated, the least measured first, until it falls out, until none can be better than
the best by more than what matters, or until repeats are used up (racing after Maron, Moore,
"Hoeffding races", NeurIPS 1993, with the intervals of :mod:`joulelab.core.comparison`).
"""

from collections import Counter

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.errors import ConfigError
from joulelab.search.base import Outcome, Strategy
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.standing import LEVEL, Standing, standing


class Race(Strategy):
    """A strategy that screens, with repeats of what may be the best after it.

    While the screening waits for outcomes, repeats fill the time.

    Args:
        problem: What is searched for.
        screening: What chooses new configurations.
        most_repeats: Measurements of one configuration at most.
        tolerance: A relative regret that does not matter.
        level: Confidence of the comparisons.

    Raises:
        ConfigError: If ``most_repeats`` is below 1 or ``tolerance`` is negative.
    """

    def __init__(
        self,
        problem: Problem,
        screening: Strategy,
        *,
        most_repeats: int = 5,
        tolerance: float = 0.01,
        level: float = LEVEL,
    ) -> None:
        if most_repeats < 1 or tolerance < 0:
            raise ConfigError(
                "most_repeats must be at least 1 and tolerance not negative, "
                f"got {most_repeats} and {tolerance:g}."
            )
        self.evidence = Evidence(problem)
        self._screening = screening
        self._most_repeats, self._tolerance, self._level = most_repeats, tolerance, level
        self._out: Counter[Configuration] = Counter()
        self._standing: Standing | None = None

    @override
    def ask(self) -> Configuration | None:
        asked = self._screening.ask() or self._repeat()
        if asked is not None:
            self._out[asked] += 1
        return asked

    @override
    def tell(self, outcome: Outcome) -> None:
        self._screening.tell(outcome)
        self.evidence.add(outcome)
        if self._out[outcome.candidate] > 0:
            self._out[outcome.candidate] -= 1
        self._standing = None

    @property
    @override
    def is_done(self) -> bool:
        return not self._out.total() and self._screening.is_done and self._repeat() is None

    def standing(self) -> Standing | None:
        """Return where the search stands; ``None`` before anything was measured."""
        if self._standing is None:
            self._standing = standing(self.evidence, level=self._level)
        return self._standing

    def _repeat(self) -> Configuration | None:
        """Return which contender to measure again; ``None`` if the decision is made."""
        now = self.standing()
        if now is None or now.open_regret <= self._tolerance:
            return None
        tries = {each: self._tries(each) for each in now.members}
        open_ = [each for each in now.members if tries[each] < self._most_repeats]
        return min(open_, key=tries.__getitem__, default=None)

    def _tries(self, configuration: Configuration) -> int:
        """Return how often a configuration was measured, failed, or is being measured."""
        measured = len(self.evidence.repeats(configuration))
        failed = self.evidence.num_failures(configuration)
        return measured + failed + self._out[configuration]
