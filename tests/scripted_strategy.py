"""A strategy that asks for what it was given, and remembers what it was told."""

from typing_extensions import override

from joulelab.searching.base import Strategy


class Scripted(Strategy):
    """Asks for ``candidates`` in order, leaving out those that it was told of already.

    Args:
        candidates: What to ask for.
        max_out: Candidates that may be out at once; ``None`` for any number.
    """

    def __init__(self, candidates, *, max_out=None):
        self.told = []
        self._left = list(candidates)
        self._max_out = max_out
        self._out = []

    @override
    def ask(self):
        if not self._left or (self._max_out is not None and len(self._out) >= self._max_out):
            return None
        self._out.append(self._left.pop(0))
        return self._out[-1]

    @override
    def tell(self, outcome):
        self.told.append(outcome)
        for known in (self._out, self._left):
            if outcome.candidate in known:
                known.remove(outcome.candidate)
                return

    @property
    @override
    def is_done(self):
        return not self._left and not self._out
