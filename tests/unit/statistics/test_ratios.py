import numpy as np
import pytest
from scipy import stats

from joulelab.errors import ConfigError, MeasurementError
from joulelab.statistics.ratios import ratio_on_boards, ratio_over_boards


def measured(num_boards=3, num_pairs=6, *, ratio=0.8, scatter=0.01, boards_differ=0.0, seed=0):
    random = np.random.default_rng(seed)
    boards = np.repeat([f"board {i}" for i in range(num_boards)], num_pairs)
    gain = np.repeat(random.uniform(0.5, 2.0, num_boards), num_pairs)
    effect = np.repeat(boards_differ * random.standard_normal(num_boards), num_pairs)
    reference = 100 * gain * np.exp(scatter * random.standard_normal(len(boards)))
    noise = scatter * random.standard_normal(len(boards))
    return reference * ratio * np.exp(effect + noise), reference, boards.tolist()


def test_a_boards_gain_cancels():
    treated, reference, boards = measured()

    found = ratio_on_boards(treated, reference, boards)

    assert found.value == pytest.approx(0.8, abs=0.01)
    assert found.half_width < 0.02


def test_one_board_of_equal_references_is_scipys_own_bootstrap_of_a_mean():
    values = np.array([0.7, 0.9, 0.8, 1.3, 0.75, 0.85])
    ours = ratio_on_boards(values, np.ones(6), ["a"] * 6, seed=4)

    theirs = stats.bootstrap((values,), np.mean, rng=np.random.default_rng(5)).confidence_interval

    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_every_board_counts_the_same_however_often_it_was_measured():
    treated = [50.0, 50.1, 200.0, 200.5, 199.5, 200.2, 199.8]
    boards = ["a", "a", "b", "b", "b", "b", "b"]

    found = ratio_on_boards(treated, [100.0] * 7, boards)

    assert found.value == pytest.approx(1.0, rel=0.002)  # root of 0.5 x 2


def test_the_interval_of_a_ratio_covers_it_as_often_as_stated():
    covered = [
        not ratio_on_boards(
            *measured(2, 10, scatter=0.05, seed=seed), num_resamples=499, level=0.9
        ).excludes(0.8)
        for seed in range(200)
    ]

    assert 0.8 <= np.mean(covered) <= 0.96


def test_boards_that_differ_widen_what_is_said_of_other_boards():
    treated, reference, boards = measured(8, 4, scatter=0.002, boards_differ=0.05)

    these, others = (
        each(treated, reference, boards) for each in (ratio_on_boards, ratio_over_boards)
    )

    assert others.half_width > 5 * these.half_width


def test_the_same_seed_gives_the_same_interval():
    assert ratio_on_boards(*measured(), seed=1) == ratio_on_boards(*measured(), seed=1)


def test_few_boards_say_nothing_about_others():
    with pytest.raises(MeasurementError, match="At least 5 boards"):
        ratio_over_boards(*measured(3))


def test_a_board_measured_once_is_named():
    with pytest.raises(MeasurementError, match="got one on 'lonely'"):
        ratio_on_boards([1.0, 1.1, 1.2], [1.0, 1.0, 1.0], ["a", "a", "lonely"])


def test_every_pair_needs_its_board():
    with pytest.raises(ConfigError, match="2 names for 3 pairs"):
        ratio_on_boards([1.0, 1.1, 1.2], [1.0, 1.0, 1.0], ["a", "a"])
