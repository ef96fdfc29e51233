"""What every strategy of a search keeps to; registering one is how it gets tested."""

import pytest

from joulelab.searching.strategies import STRATEGIES
from joulelab.testing import StrategyContract
from joulelab.testing.choosing import small_problem


class TestEveryStrategy(StrategyContract):
    @pytest.fixture(params=sorted(STRATEGIES))
    def make(self, request):
        return lambda: STRATEGIES[request.param](small_problem(), seed=3)
