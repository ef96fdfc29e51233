"""What bounds time is told apart, and probes go where they tell it."""

import numpy as np
import pytest

from joulelab.hardware.catalogue import GPUS
from joulelab.search.base import Figures, Outcome
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.goal import goal_of
from joulelab.search.model.belief import Observed, Rows
from joulelab.search.model.forecast import Forecaster
from joulelab.search.model.hypotheses import Hypotheses
from joulelab.search.model.lookahead import lowest_after
from joulelab.search.model.priors import ANY_BOARD, board_prior
from joulelab.search.space import SearchSpace

H200 = GPUS["h200_sxm"]
CELLS = ((("batch", 1),), (("batch", 8),))


def observed(ratio, time_s, power_w):
    rows = Rows(
        cell=np.zeros(len(ratio), dtype=np.intp),
        ratio=np.array(ratio),
        limit_w=np.full(len(ratio), np.inf),
        board=np.zeros(len(ratio), dtype=np.intp),
        warmth_k=np.zeros(len(ratio)),
    )
    logs = np.log(np.column_stack([time_s, power_w]))
    return Observed(rows=rows, logs=logs, u=np.full_like(logs, 0.003))


def expected_time(found, ratio):
    rows = observed([ratio], [1.0], [1.0]).rows
    return float(np.exp(found.expected(rows).logs[0, 0]))


def test_time_of_the_host_stays_and_time_of_the_memory_grows_below_its_knee():
    board, probes, power_w = board_prior(H200, 1980), [1.0, 0.7, 0.4], [220.0, 160.0, 105.0]

    host = Hypotheses(CELLS, observed(probes, [1.0, 1.0, 1.0], power_w), board)
    memory = Hypotheses(CELLS, observed(probes, [1.0, 1.0, 1.38], power_w), board)

    assert expected_time(host, 0.25) == pytest.approx(1.0, abs=0.05)
    assert expected_time(memory, 0.25) == pytest.approx(0.556 / 0.25, rel=0.08)
    assert host.weights[1] > 0.9
    assert memory.weights[1] < 0.5


def test_what_hypotheses_disagree_about_is_uncertain():
    board = board_prior(H200, 1980)
    found = Hypotheses(CELLS, observed([1.0, 0.7], [1.0, 1.0], [220.0, 160.0]), board)

    expected = found.expected(observed([0.7, 0.25], [1.0, 1.0], [1.0, 1.0]).rows)
    variance = np.einsum("nki,ij,nkj->nk", expected.slopes, found.covariance, expected.slopes)

    assert min(found.weights) > 0.02
    assert np.sqrt(variance[0, 0]) < 0.01
    assert np.sqrt(variance[1, 0]) > 0.15


def test_the_catalogue_says_where_voltage_starts_to_rise():
    known = np.exp(board_prior(H200, 1980).mean)

    assert known[0] == pytest.approx(H200.power.constant_w)
    assert known[2] * 1980 == pytest.approx(H200.voltage.ridge_mhz)
    assert 1 + known[3] == pytest.approx(H200.voltage.at(1980))
    half_mhz = (H200.voltage.ridge_mhz + 1980) / 2
    assert 1 + known[3] * 0.5 ** known[4] == pytest.approx(H200.voltage.at(half_mhz))
    assert board_prior(None, 1980) is ANY_BOARD


def test_a_probe_is_worth_most_where_it_tells_what_bounds_time():
    space = SearchSpace("gemm", {"sm_clock_mhz": H200.study_clocks_mhz})
    evidence = Evidence(Problem(space=space, goal=goal_of("edp"), gpu=H200))
    forecaster = Forecaster(evidence)
    at = {ratio: 1 + int(np.argmin(abs(forecaster.ratio[1:] - ratio))) for ratio in (0.4, 0.7, 0.9)}
    for place, power_w in ((0, 220.0), (at[0.7], 160.0)):
        figures = Figures(
            energy_j=power_w, energy_u_j=0.5, time_s=1.0, time_u_s=0.002, power_w=power_w, board="b"
        )
        evidence.add(Outcome(candidate=space[place], figures=figures))
    forecast = forecaster.forecast()

    every = np.arange(len(space))
    below, above = lowest_after(forecast, np.array([at[0.4], at[0.9]]), every, forecast.covariance)

    assert below < above - 0.02
    assert above <= forecast.log_cost.min() + 1e-9
