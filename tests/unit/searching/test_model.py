"""The law of physics that guides a search, and what it makes of measurements."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from joulelab.core.process import one_thread
from joulelab.searching.model.belief import Belief
from joulelab.searching.model.covariances import QUALITY, CellKernel, Covariances, Spread, field
from joulelab.searching.model.law import Observed, Rows, log_time_power, slopes
from joulelab.searching.model.parameters import ANY_BOARD

INF = np.array([np.inf])
CELLS = tuple(
    (("batch", batch), ("precision", precision))
    for precision in ("fp32", "bf16")
    for batch in (1, 8, 64)
)
COVARIANCES = Covariances(CELLS)
LAW = np.array(
    [
        [
            0.0,
            30.0,
            -30.0,
            np.log(50),
            np.log(60),
            np.log(20),
            np.log(1.25),
            np.log(100),
            -30.0,
            np.log(0.7),
            np.log(0.4),
            0.0,
            np.log(6.0),
        ]
    ]
)
"""T1 = 1 s of core time alone; 100 W constant, 50 W clocked, 60 W pipes, 20 W memory."""


def rows(cell, ratio, board=None, warmth_k=None):
    n = len(cell)
    return Rows(
        cell=np.array(cell, dtype=np.intp),
        ratio=np.array(ratio, dtype=float),
        limit_w=np.full(n, np.inf),
        asked_w=np.full(n, np.inf),
        place=np.column_stack([np.log(ratio), np.zeros(n)]),
        board=np.array(board if board is not None else [0] * n, dtype=np.intp),
        warmth_k=np.zeros(n) if warmth_k is None else np.asarray(warmth_k),
    )


def test_work_bound_by_the_core_takes_twice_as_long_at_half_the_clock():
    found = np.exp(log_time_power(LAW, np.array([0.5]), INF))

    assert found[0] == pytest.approx([2.0, 100 + 25 + (60 + 20) / 2], rel=1e-6)


def test_voltage_acts_on_the_core_and_not_on_memory_or_constant_power():
    found = np.exp(log_time_power(LAW, np.array([1.0]), INF))

    assert found[0, 1] == pytest.approx(100 + 50 * 1.4**2 + 60 * 1.4**2 + 20, rel=1e-6)


def test_a_limit_lowers_the_clock_until_it_holds():
    time_s, power_w = np.exp(log_time_power(LAW, np.array([1.0]), np.array([165.0])))[0]

    assert power_w == pytest.approx(165.0, rel=1e-4)
    assert time_s == pytest.approx(2.0, rel=1e-4)  # as at half the clock, where it draws 165 W


@pytest.mark.parametrize("limit_w", [125.0, 165.0, 185.0, 230.0])
def test_power_at_a_clock_that_is_held_is_the_limit(limit_w):
    """Also at the ridge, where power has a kink, and for rows that are held or not."""
    ratio = np.array([0.3, 0.7, 0.71, 0.9, 1.0])

    free_w, held_w = (
        np.exp(log_time_power(np.repeat(LAW, 5, axis=0), ratio, np.full(5, bound)))[:, 1]
        for bound in (np.inf, limit_w)
    )

    assert held_w == pytest.approx(np.minimum(free_w, limit_w), rel=1e-6)


def test_the_clock_does_not_fall_below_the_least_to_keep_to_a_limit():
    found_w = np.exp(log_time_power(LAW, np.array([1.0]), np.array([80.0])))[0, 1]

    assert 100.0 < found_w < 110.0


def test_a_limit_that_is_asked_for_acts_before_the_mean_reaches_it():
    ratio, never = np.ones(3), np.full(3, np.inf)
    free_w = np.exp(log_time_power(LAW[:1], ratio[:1], INF))[0, 1]
    limits_w = free_w * np.array([0.5, 1.25, 4.0])

    time_s, power_w = np.exp(log_time_power(np.repeat(LAW, 3, axis=0), ratio, never, limits_w)).T

    assert power_w[0] == pytest.approx(limits_w[0] / 1.25, rel=0.02)
    assert power_w[1] == pytest.approx(free_w * 2 ** (-1 / 6), rel=1e-3)
    assert power_w[2] == pytest.approx(free_w, rel=0.01)
    assert time_s[0] > time_s[1] > 1.05 > time_s[2]


def test_linear_algebra_uses_one_thread_for_as_long_as_it_is_asked_to():
    def threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = threads()
    with one_thread():
        within = threads()

    assert set(within) == {1}
    assert threads() == before


def test_slopes_are_those_of_the_law():
    found = slopes(LAW, np.array([0.5]), INF, INF)[0]

    assert found[0, 0] == pytest.approx(1.0)
    assert found[1, 0] == pytest.approx(0.0, abs=1e-6)
    assert found[1, 7] == pytest.approx(100 / 165, rel=1e-4)


@pytest.mark.parametrize(
    ("limit_w", "asked_w"), [(np.inf, np.inf), (120.0, np.inf), (np.inf, 150.0), (120.0, 150.0)]
)
def test_slopes_are_differences_of_the_law_also_where_a_limit_holds_the_clock(limit_w, asked_w):
    ratio, at = np.array([0.95]), (np.array([limit_w]), np.array([asked_w]))
    law, step = LAW.copy(), 1e-5
    law[0, 1:3] = 1.0, -0.4

    found = slopes(law, ratio, *at)[0]

    for number, moved in enumerate(step * np.eye(law.shape[1])):
        up, down = (log_time_power(law + side * moved, ratio, *at)[0] for side in (1.0, -1.0))
        assert found[:, number] == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_covariances_of_cells_are_covariances():
    spread = Spread(shared=1.0, named=0.5, number=0.7, together=0.3, rest=0.05)

    covariance = CellKernel(CELLS).covariance(spread)

    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.diag(covariance) == pytest.approx(1.0 + 0.25 + 0.49 + 0.09 + 0.0025)
    same_precision, same_batch, neither = covariance[0, 2], covariance[0, 3], covariance[0, 5]
    assert min(same_precision, same_batch) > neither >= 1.0


def test_quality_told_of_one_batch_is_expected_of_another_and_less_of_another_format():
    mean, deviation = field(
        CellKernel(CELLS), QUALITY, np.array([0]), np.array([np.log(0.9)]), np.array([0.0])
    )

    assert mean[0] == pytest.approx(np.log(0.9), rel=0.01)
    assert mean[0] < mean[1] < mean[4] < 0
    assert deviation[0] < deviation[1] < deviation[4]


def curve(ratio, scale=1.0):
    parameters = np.repeat(LAW, len(ratio), axis=0)
    parameters[:, [1, 2]] = (1.5, -0.7)
    parameters[:, 0] += np.log(scale)
    return log_time_power(parameters, np.asarray(ratio), np.full(len(ratio), np.inf))


def observed(cell, ratio, logs, board=None, warmth_k=None):
    at = rows(cell, ratio, board, warmth_k)
    return Observed(rows=at, logs=logs, u=np.full(logs.shape, 0.002))


def variance_of(belief, rows, weights):
    seen = belief.see(rows, tuple(weights))
    return belief.variance(seen, seen)


def test_three_clocks_tell_the_others_within_two_percent_and_within_the_stated_spread():
    probes, asked = [1.0, 0.8, 0.6], np.linspace(0.45, 1.0, 20)
    belief = Belief(COVARIANCES, observed([0] * 3, probes, curve(probes)), ANY_BOARD)

    expected = belief.expected(rows([0] * 20, asked))

    error = expected - curve(asked)
    variance = np.column_stack([variance_of(belief, rows([0] * 20, asked), w) for w in np.eye(2)])
    assert np.abs(error).max() < 0.02
    assert (np.abs(error) < 3 * np.sqrt(variance) + 0.002).all()


def test_one_clock_of_another_cell_is_enough_once_a_cell_is_known():
    probes = [1.0, 0.8, 0.6, 0.45, 0.8]
    logs = np.vstack([curve(probes[:4]), curve([0.8], scale=3.0)])
    belief = Belief(COVARIANCES, observed([0, 0, 0, 0, 1], probes, logs), ANY_BOARD)

    expected = belief.expected(rows([1] * 3, [1.0, 0.7, 0.5]))

    assert expected == pytest.approx(curve([1.0, 0.7, 0.5], scale=3.0), abs=0.06)


def test_a_board_that_draws_more_is_told_apart_from_a_cell_that_does():
    probes, boards = [1.0, 0.8, 0.6, 1.0, 0.8, 0.6], [0, 0, 0, 1, 1, 1]
    logs = curve(probes)
    logs[3:, 1] += 0.05
    belief = Belief(COVARIANCES, observed([0] * 6, probes, logs, boards), ANY_BOARD, num_boards=2)

    expected = belief.expected(rows([0, 0], [0.8, 0.8], [0, 1]))

    assert expected[1, 1] - expected[0, 1] == pytest.approx(0.05, abs=0.005)
    assert expected[0, 1] == pytest.approx(curve([0.8])[0, 1], abs=0.005)


def test_power_that_a_cold_board_saved_is_not_taken_for_the_clocks():
    probes, cold_k = [1.0, 1.0, 0.8, 0.6], np.array([-10.0, 0.0, 0.0, 0.0])
    logs = curve(probes)
    logs[:, 1] += 0.003 * cold_k
    told = Belief(COVARIANCES, observed([0] * 4, probes, logs, warmth_k=cold_k), ANY_BOARD)
    untold = Belief(COVARIANCES, observed([0] * 4, probes, logs), ANY_BOARD)

    true = curve([1.0])[0, 1]
    error, blind = (belief.expected(rows([0], [1.0]))[0, 1] - true for belief in (told, untold))

    assert abs(error) < 0.006
    assert blind < -0.01


def test_how_power_grows_with_temperature_is_learnt_from_repeats():
    warmth_k, probes = np.linspace(-10, 10, 8), [1.0] * 8
    logs = curve(probes)
    logs[:, 1] += 0.005 * warmth_k

    belief = Belief(COVARIANCES, observed([0] * 8, probes, logs, warmth_k=warmth_k), ANY_BOARD)

    warm, cool = (belief.expected(rows([0], [1.0], warmth_k=[k]))[0] for k in (5.0, -5.0))
    assert warm[1] - cool[1] == pytest.approx(10 * 0.005, rel=0.05)
    assert warm[0] == cool[0]  # leakage takes no time


def test_scatter_beyond_what_is_stated_widens_what_is_believed():
    probes = np.linspace(0.5, 1.0, 12)
    noise = np.random.default_rng(1).normal(0, 0.03, (12, 2))

    quiet = Belief(COVARIANCES, observed([0] * 12, probes, curve(probes)), ANY_BOARD)
    loud = Belief(COVARIANCES, observed([0] * 12, probes, curve(probes) + noise), ANY_BOARD)

    assert quiet.noise == pytest.approx(1.0, abs=0.3)
    assert loud.noise > 5


def fleet(random, num=40, num_boards=16):
    """Return readings of six cells on boards that differ, most at a limit, and no scatter else."""
    cell, ratio = random.integers(0, 6, num), random.choice(np.linspace(0.4, 1.0, 31), num)
    cell[0], ratio[0] = 0, 1.0
    board = np.concatenate(
        [np.arange(num_boards), random.integers(0, num_boards, num - num_boards)]
    )
    law = np.repeat(LAW, num, axis=0)
    law[:, [1, 2]] = (1.5, -0.7)
    law[:, :6] += random.normal(0.0, 0.7, (6, 7))[cell][:, :6]
    free_w = np.exp(log_time_power(law, ratio, np.full(num, np.inf))[:, 1])
    limit_w = np.where(free_w > 150.0, 150.0, np.inf)
    apart = random.normal(0.0, (0.01, 0.04), (num_boards, 2))
    apart[0] = 0.0
    logs = log_time_power(law, ratio, limit_w) + apart[board] + random.normal(0, 0.003, (num, 2))
    at = rows(cell, ratio, board)
    at = Rows(**{name: getattr(at, name) for name in Rows.__slots__} | {"limit_w": limit_w})
    return Observed(rows=at, logs=logs, u=np.full(logs.shape, 0.003)), num_boards


@pytest.mark.parametrize("seed", range(10))
def test_what_many_boards_read_at_their_limit_is_not_taken_for_scatter(seed):
    """Steps of a law made linear led astray there, and stopped at up to 40 times the scatter."""
    observed, num_boards = fleet(np.random.default_rng(seed))

    belief = Belief(COVARIANCES, observed, ANY_BOARD, num_boards=num_boards, working=2.0)

    assert belief.noise < 1.5
