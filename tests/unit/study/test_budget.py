"""What a search may still spend."""

import pytest

from joulelab.errors import ConfigError
from joulelab.study.budget import Account, Budget


class Wall:
    """A clock that a test moves."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def test_no_trial_is_taken_that_would_begin_after_the_wall_budget():
    """A trial that waited behind another once began after the end of the budget."""
    wall = Wall()
    account = Account(Budget(wall_s=100.0), wall)
    account.begin()  # one GPU with trials of 20 s: one under way, one waiting
    account.begin()
    taken = []
    for end_s in (20.0, 40.0, 60.0, 80.0, 100.0):
        wall.now_s = end_s
        account.end()
        if account.exhausted is None:
            account.begin()
            taken.append(end_s)

    # the one taken at 60 s begins at 80 s; one taken at 80 s would begin at 100 s
    assert taken == [20.0, 40.0, 60.0]
    assert account.exhausted == "100 s"


def test_a_wall_budget_without_any_trial_yet_is_over_when_it_is():
    wall = Wall()
    account = Account(Budget(wall_s=5.0), wall)

    wall.now_s = 4.9
    assert account.exhausted is None
    wall.now_s = 5.0
    assert account.exhausted == "5 s"


def test_trials_of_earlier_runs_count_and_tell_what_one_takes_but_not_how_long():
    wall = Wall()
    account = Account(Budget(num_trials=4, wall_s=10.0, energy_j=400.0), wall)
    for _ in range(3):
        account.begin()
        wall.now_s += 60.0
        account.end()

    account.start()
    account.spend(300.0)
    assert account.exhausted is None
    account.begin()
    assert account.exhausted == "4 trials"


def test_one_trial_is_called_so():
    """A search of one trial was said to be "within 1 trials"."""
    account = Account(Budget(num_trials=1, energy_j=400.0))
    account.begin()

    assert account.budget.words == "1 trial or 400 J"
    assert account.exhausted == "1 trial"


@pytest.mark.parametrize(("spent_j", "left"), [(299.0, None), (301.0, "400 J")])
def test_another_trial_of_the_mean_energy_must_fit_in(spent_j, left):
    account = Account(Budget(energy_j=400.0))
    for _ in range(3):
        account.begin()
        account.end()

    account.spend(spent_j)

    assert account.exhausted == left


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, 1e300])
@pytest.mark.parametrize("name", ["num_trials", "wall_s", "energy_j", "horizon_h"])
def test_a_bound_that_bounds_nothing_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be positive and at most"):
        Budget(**{name: value})
