"""What strategies have in common that go through a list."""

from abc import abstractmethod
from collections.abc import Sequence

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Outcome, Strategy
from joulelab.searching.evidence import Evidence, Problem


class Listed(Strategy):
    """Asks for each configuration of a list once, leaving out those that were told.

    A failed one is not asked for again: trying again is up to who runs the trials.

    Args:
        problem: What is searched for.
    """

    def __init__(self, problem: Problem) -> None:
        self.evidence = Evidence(problem)
        self._taken: set[Configuration] = set()
        self._out: set[Configuration] = set()

    @abstractmethod
    def wanted(self) -> Sequence[Configuration]:
        """Return what to measure as far as it is known, the next first."""

    @override
    def ask(self) -> Configuration | None:
        following = next((each for each in self.wanted() if each not in self._taken), None)
        if following is not None:
            self._taken.add(following)
            self._out.add(following)
        return following

    @override
    def tell(self, outcome: Outcome) -> None:
        self.evidence.add(outcome)
        self._taken.add(outcome.candidate)
        self._out.discard(outcome.candidate)

    @property
    @override
    def is_done(self) -> bool:
        return not self._out and all(each in self._taken for each in self.wanted())
