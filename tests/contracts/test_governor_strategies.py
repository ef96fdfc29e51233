"""What every strategy of the governor keeps to."""

import inspect

import pytest
from governed import play

from joulelab.governor import STRATEGIES
from joulelab.governor.strategy import Strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_whole_and_has_the_name_that_it_is_found_by(name):
    strategy = STRATEGIES[name]

    assert issubclass(strategy, Strategy)
    assert not inspect.isabstract(strategy)
    assert strategy.name == name


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return play(tmp_path_factory.mktemp("alone"), "serving", gpu="a100_sxm")


@pytest.mark.parametrize("objective", ["edp", "ed2p", "energy"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_breaks_the_limit_or_leaves_anything_set(tmp_path, alone, name, objective):
    governed = play(tmp_path, "serving", name, gpu="a100_sxm", objective=objective, fixed=705.0)

    assert governed.slowdown(alone) <= 0.05
    assert governed.device.read_state().held.is_default
    assert not governed.governor.observing_only


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"race-to-idle"}))
def test_a_strategy_does_not_change_the_clock_without_end(tmp_path, name):
    """A steady load, once it is known, needs no more changes than looks at the driver's clock."""
    first = play(tmp_path, "decode", name, duration_s=60.0, fixed=1500.0).governor.num_changes
    both = play(tmp_path, "decode", name, duration_s=180.0, fixed=1500.0).governor.num_changes

    assert both - first <= (300 if name == "bandit" else 12)
