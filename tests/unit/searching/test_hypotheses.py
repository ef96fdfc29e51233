"""What bounds time is told apart, and probes go where they tell it."""

import numpy as np
import pytest

from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.model.covariances import Covariances
from joulelab.searching.model.forecast import Forecaster
from joulelab.searching.model.hypotheses import Hypotheses
from joulelab.searching.model.improvement import Improvements, lowest_after
from joulelab.searching.model.law import Observed, Rows
from joulelab.searching.model.parameters import ANY_BOARD, board_prior
from joulelab.searching.space import SearchSpace

H200 = GPUS["h200_sxm"]
CELLS = Covariances(((("batch", 1),), (("batch", 8),)))


def observed(ratio, time_s, power_w):
    rows = Rows(
        cell=np.zeros(len(ratio), dtype=np.intp),
        ratio=np.array(ratio),
        limit_w=np.full(len(ratio), np.inf),
        asked_w=np.full(len(ratio), np.inf),
        place=np.column_stack([np.log(ratio), np.zeros(len(ratio))]),
        board=np.zeros(len(ratio), dtype=np.intp),
        warmth_k=np.zeros(len(ratio)),
    )
    logs = np.log(np.column_stack([time_s, power_w]))
    return Observed(rows=rows, logs=logs, u=np.full_like(logs, 0.003))


def expected_time(found, ratio):
    rows = observed([ratio], [1.0], [1.0]).rows
    return float(np.exp(found.expected(rows)[0, 0]))


def first(seen, num):
    rows = seen.rows.at(np.arange(num))
    return Observed(rows=rows, logs=seen.logs[:num], u=seen.u[:num])


def test_time_of_the_host_stays_and_time_of_the_memory_grows_below_its_knee():
    board, probes, power_w = board_prior(H200, 1980), [1.0, 0.7, 0.4], [220.0, 160.0, 105.0]

    host = Hypotheses(CELLS, observed(probes, [1.0, 1.0, 1.0], power_w), board)
    memory = Hypotheses(CELLS, observed(probes, [1.0, 1.0, 1.38], power_w), board)

    assert expected_time(host, 0.25) == pytest.approx(1.0, abs=0.05)
    assert expected_time(memory, 0.25) == pytest.approx(0.556 / 0.25, rel=0.08)
    assert host.weights[1] > 0.8
    assert memory.weights[1] < 0.5


def test_a_fit_that_goes_on_from_fewer_measurements_finds_what_one_from_the_prior_does_not():
    """A law that held was given up, as steps from the prior ended far off."""
    board, ratio = board_prior(None, 1410), np.linspace(1.0, 0.35, 30)
    work_s = (ratio**-4 + 0.5**4) ** 0.25
    time_s, volts = work_s + 0.1, 1.0 + np.maximum(0.0, ratio - 0.7)
    power_w = 80.0 + 60.0 * ratio * volts**2 + 200.0 * ratio * volts**2 * work_s / time_s
    seen = observed(ratio, time_s, power_w)

    found = Hypotheses(CELLS, first(seen, 3), board)
    for num in (6, 12, 30):
        found = Hypotheses(CELLS, first(seen, num), board, before=found)

    near = found.beliefs[0].expected(seen.rows) - seen.logs
    assert np.abs(near).max() < 0.01
    assert found.weights[:2].sum() > 0.9


def test_what_hypotheses_disagree_about_is_uncertain():
    board = board_prior(H200, 1980)
    found = Hypotheses(CELLS, observed([1.0, 0.7], [1.0, 1.0], [220.0, 160.0]), board)

    times = found.quantities(observed([0.7, 0.25], [1.0, 1.0], [1.0, 1.0]).rows, (1.0, 0.0))
    variance = found.variance(times, times)

    assert min(found.weights[:2]) > 0.02
    assert np.sqrt(variance[0]) < 0.01
    assert np.sqrt(variance[1]) > 0.15


def test_the_catalogue_says_where_voltage_starts_to_rise():
    known = np.exp(board_prior(H200, 1980).mean)

    assert known[0] == pytest.approx(H200.power.constant_w)
    assert known[2] * 1980 == pytest.approx(H200.voltage.ridge_mhz)
    assert 1 + known[3] == pytest.approx(H200.voltage.at(1980))
    half_mhz = (H200.voltage.ridge_mhz + 1980) / 2
    assert 1 + known[3] * 0.5 ** known[4] == pytest.approx(H200.voltage.at(half_mhz))
    assert board_prior(None, 1980) is ANY_BOARD


def known_at(*told):
    """Return what is forecast of an H200 after readings of power at ratios of its clock."""
    space = SearchSpace("gemm", {"sm_clock_mhz": H200.study_clocks_mhz})
    evidence = Evidence(Problem(space=space, objective=OBJECTIVES["edp"], gpu=H200))
    forecaster = Forecaster(evidence)
    for ratio, power_w in told:
        place = 0 if ratio == 1.0 else place_of(forecaster, ratio)
        figures = Figures(
            energy_j=power_w, energy_u_j=0.5, time_s=1.0, time_u_s=0.002, power_w=power_w, board="b"
        )
        evidence.add(Outcome(candidate=space[place], figures=figures))
    return forecaster, forecaster.forecast()


def test_that_any_is_better_is_likelier_than_that_one_is_and_no_likelier_than_their_sum():
    _, forecast = known_at((1.0, 600.0), (0.8, 420.0))
    places = np.flatnonzero(forecast.rows.ratio < 0.79)
    best = int(np.argmin(forecast.log_cost))
    of_all = Improvements(forecast, best, places)

    chance = of_all.after(()).chance
    of_any = of_all.chance_of_any((), np.ones(len(places)))
    of_none = of_all.chance_of_any((), np.zeros(len(places)))

    assert 0.02 < chance.max() < 0.98
    assert chance.max() - 0.08 < of_any < min(chance.sum(), 1.0) + 0.08  # 400 draws
    assert of_none == 0.0


def place_of(forecaster, ratio):
    return 1 + int(np.argmin(abs(forecaster.ratio[1:] - ratio)))


def test_a_probe_is_worth_most_where_it_tells_what_bounds_time():
    forecaster, forecast = known_at((1.0, 220.0), (0.7, 160.0))
    every = np.arange(len(forecaster.ratio))
    places = np.array([place_of(forecaster, ratio) for ratio in (0.4, 0.9)])

    below, above = lowest_after(forecast, places, every)

    assert below < above - 0.05


def test_a_probe_tells_little_that_another_one_will_tell_that_is_out():
    forecaster, forecast = known_at((1.0, 220.0), (0.7, 160.0))
    every = np.arange(len(forecaster.ratio))
    out, near, far = (place_of(forecaster, ratio) for ratio in (0.4, 0.42, 0.9))

    alone = lowest_after(forecast, np.array([near, far]), every)
    beside = lowest_after(forecast, np.array([near, far]), every, [out])

    assert alone[1] - alone[0] > 0.05
    assert abs(beside[1] - beside[0]) < 0.01
    assert beside.max() <= alone.min() + 0.005


def test_draws_keep_to_what_was_measured_and_scatter_where_nothing_was():
    forecaster, forecast = known_at((1.0, 220.0), (0.7, 160.0))
    measured = np.array([0, place_of(forecaster, 0.7)])

    drawn = forecast.belief.drawn(forecast.rows)

    assert drawn[:, measured].mean(axis=0) == pytest.approx(forecast.logs[measured], abs=0.005)
    assert drawn[:, measured].std(axis=0).max() < 0.01
    assert drawn[:, place_of(forecaster, 0.3), 0].std() > 0.05


def test_what_a_hypothesis_says_is_drawn_as_often_as_it_is_likely():
    forecaster, forecast = known_at((1.0, 220.0), (0.7, 160.0))
    low = place_of(forecaster, 0.25)

    time_s = np.exp(forecast.belief.drawn(forecast.rows)[:, low, 0])

    of_host = forecast.belief.weights[1]
    assert 0.02 < of_host < 0.98
    assert np.mean(time_s < 1.2) == pytest.approx(of_host, abs=0.1)
