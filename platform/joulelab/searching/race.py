"""Repeats where the decision is open, and nowhere else.

Screening measures most configurations once. Those indistinguishable from the best then
race: each is repeated, the least measured first, until it falls out, until none can be better than
the best by more than what matters, or until repeats are used up (racing after Maron, Moore,
"Hoeffding races", NeurIPS 1993, with the intervals of :mod:`joulelab.core.comparison`). Where the
number of trials is bounded, the last ones confirm what the answer will name.
"""

from collections import Counter
from math import ceil, inf

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.errors import ConfigError
from joulelab.searching.answer import knee_of, measured_front
from joulelab.searching.base import Outcome, Strategy, cost_of
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.space import at_default
from joulelab.searching.standing import LEVEL, Standing, compared, standing

_MOST_CONFIRMING, _CONFIRMING_SHARE = 3, 4
"""Trials at the end of a budget that may go to repeats of the best and of the knee: one for each,
and one to spare for another best, or for a baseline that its GPU measures when it is due. Of a
small budget they are a quarter, so that there is something to confirm."""
_UNREPEATED = 8  # trials after which one is repeated, so that it is known how they scatter
_CONFIRMED = 2
"""Measurements that what an answer names is to have; the last repeat may name something else."""


def num_confirming(num_trials: int | None) -> int:
    """Return how many of the last trials may be repeats; none where their number is open."""
    return 0 if num_trials is None else min(_MOST_CONFIRMING, num_trials // _CONFIRMING_SHARE)


class Race(Strategy):
    """A strategy that screens, with repeats of what may be the best after it.

    While the screening waits for outcomes, repeats fill the time. A relative regret of
    ``tolerance`` does not matter, nor one that is less over the horizon than a point costs;
    ``level`` is the confidence of comparisons; ``num_trials`` what the search may make, if that is
    known. Raises ConfigError if ``most_repeats`` is below 1 or ``tolerance`` is negative.
    """

    def __init__(
        self,
        problem: Problem,
        screening: Strategy,
        *,
        most_repeats: int = 5,
        tolerance: float = 0.01,
        level: float = LEVEL,
        num_trials: int | None = None,
    ) -> None:
        if most_repeats < 1 or tolerance < 0:
            raise ConfigError(
                "most_repeats must be at least 1 and tolerance not negative, "
                f"got {most_repeats} and {tolerance:g}."
            )
        self.evidence = Evidence(problem)
        self._screening = screening
        self._most_repeats, self._tolerance, self._level = most_repeats, tolerance, level
        self._num_trials = num_trials
        self._out: Counter[Configuration] = Counter()
        self._most_out = 0
        self._standing: Standing | None = None

    @override
    def ask(self) -> Configuration | None:
        if (asked := self._reference()) is None:
            if self._num_left > self._num_repeating:
                asked = self._noisy() or self._screening.ask() or self._repeat()
            elif self._num_left > num_confirming(self._num_trials):
                asked = self._repeat() or self._screening.ask()
            else:
                asked = None if self._awaits_news else self._last()
        if asked is not None:
            self._out[asked] += 1
            self._most_out = max(self._most_out, self._out.total())
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
        if self._out.total() or not self._screening.is_done:
            return False
        return self._reference() is None and self._repeat() is None

    def standing(self) -> Standing | None:
        """Return where the search stands; ``None`` before anything was measured."""
        if self._standing is None:
            self._standing = standing(self.evidence, level=self._level)
        return self._standing

    @property
    def _num_left(self) -> float:
        """How many trials the budget leaves; infinite if it does not bound them."""
        made = len(self.evidence.outcomes) + self._out.total()
        return inf if self._num_trials is None else self._num_trials - made

    @property
    def _num_repeating(self) -> int:
        """How many of the last trials repeat what may be the best.

        Where many are out at once, each was chosen without the others and measured once, on a board
        of its own, and what reads lowest does so by its board: half as many repeats tell boards.
        """
        least = num_confirming(self._num_trials)
        share = (self._num_trials or 0) // _CONFIRMING_SHARE
        return max(least, min(self._most_out // 2, share))

    def _reference(self) -> Configuration | None:
        """Return the driver's clock of a cell of which something may be the best, if it is needed.

        A slowdown is over it; whether a configuration keeps to its bound is open without it.
        """
        for each in self._ahead():
            usual = self._usual(each)
            if usual is not None and not self._tries(usual):
                return usual
        return None

    def _usual(self, configuration: Configuration) -> Configuration | None:
        """Return the driver's clock of its cell where its slowdown is open without that."""
        usual = at_default(configuration)
        is_open = self.evidence.lacks_reference(configuration)
        return usual if is_open and usual in self.evidence.problem.space else None

    def _ahead(self) -> list[Configuration]:
        """Return what would cost less than the best so far if it kept to the constraints."""
        if not any(c.quantity == "slowdown" for c in self.evidence.problem.constraints):
            return []
        now, objective = self.standing(), self.evidence.problem.objective
        cost = {
            each: cost_of(objective, figures).log
            for each in self.evidence.measured
            if (figures := self.evidence.mean(each)) is not None
        }
        least = cost[now.best] if now is not None and now.is_feasible else inf
        return sorted((each for each in cost if cost[each] < least), key=cost.__getitem__)

    def _noisy(self) -> Configuration | None:
        """Return the best where its readings scatter too much to be gone by; else ``None``.

        What is lowest of many such readings is so by luck, and would be the answer.
        """
        now = self.standing()
        if len(self.evidence.outcomes) < _UNREPEATED or now is None or self._is_ruled_out(now.best):
            return None
        if now.scatter is None:
            enough = 2
        else:
            enough = ceil((now.scatter / self._tolerance) ** 2) if self._tolerance else 1
        return now.best if self._may_repeat(now.best, enough) else None

    def _last(self) -> Configuration | None:
        """Return what to measure with one of the last trials.

        The very last one is a repeat: what it found new could not be confirmed.
        """
        named = self._named()
        least = min(named, key=self._tries, default=None)
        if least is not None and (self._num_left <= 1 or self._tries(least) < _CONFIRMED):
            return least
        return self._screening.ask() or self._repeat()

    @property
    def _awaits_news(self) -> bool:
        """Whether a configuration is out that was never measured, and may be the best."""
        return any(num and self.evidence.mean(each) is None for each, num in self._out.items())

    def _named(self) -> list[Configuration]:
        """Return the best and the knee of the front, as far as they may be repeated."""
        now = self.standing()
        if now is None or self.evidence.baseline is None or self._is_ruled_out(now.best):
            return []
        found, named = compared(self.evidence, level=self._level), [now.best]
        if now.best in found:
            named.append(knee_of(measured_front(self.evidence, found, now)).configuration)
        return [each for each in dict.fromkeys(named) if self._may_repeat(each)]

    def _repeat(self) -> Configuration | None:
        """Return which contender to measure again; ``None`` if the decision is made.

        The best is repeated at least once: without a repeat nobody knows how trials scatter, and
        what is lowest of many is so by luck.
        """
        now = self.standing()
        if now is None or self._is_ruled_out(now.best):
            return None
        if self._may_repeat(now.best, _CONFIRMED):
            return now.best
        if now.open_regret <= max(self._tolerance, self.evidence.least_gain):
            return None
        open_ = [each for each in now.members if self._may_repeat(each)]
        for each in sorted(open_, key=self._tries):
            usual = self._usual(each)
            if usual is None:
                return each
            if not self._tries(usual):  # what its slowdown is over tells more than its repeat
                return usual
        return None

    def _is_ruled_out(self, configuration: Configuration) -> bool:
        """Whether a measured configuration is sure to break a constraint, repeated or not."""
        judged = self.evidence.judgement(configuration)
        return judged.probability < 1.0 - judged.confidence

    def _may_repeat(self, configuration: Configuration, most: float = inf) -> bool:
        """Whether a configuration was measured less often than ``most``, and a repeat would tell.

        A recording that is played again does not.
        """
        is_open = self._tries(configuration) < min(most, self._most_repeats)
        return is_open and not self.evidence.is_played_out(configuration)

    def _tries(self, configuration: Configuration) -> int:
        """Return how often a configuration was measured, failed, or is being measured."""
        measured = len(self.evidence.repeats(configuration))
        failed = self.evidence.num_failures(configuration)
        return measured + failed + self._out[configuration]
