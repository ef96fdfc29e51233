"""Comparisons with measurements, on runs whose answer is known."""

from dataclasses import replace
from functools import partial

import pytest
from resnet_runs import as_measured, resnet_run

from joulelab.estimator.pricing.predict import confidence_of
from joulelab.estimator.validation import (
    Comparison,
    MeasuredRun,
    Prediction,
    predict_run,
    summaries,
    summary,
    validate,
)
from joulelab.hardware.processors import PROCESSORS

H200 = PROCESSORS["h200_sxm"]
run = partial(resnet_run, MeasuredRun)
measured_on = partial(as_measured, predict_run)


def compared(time_s, predicted_s, **changes):
    prediction = Prediction(time_s=predicted_s, energy_j=predicted_s, least_s=0.0)
    return Comparison(run=run(time_s=time_s, **changes), predicted=prediction)


def test_a_run_that_is_as_predicted_has_no_error():
    found = validate(measured_on(H200, run(), run(batch=64)))

    assert [one.time_error for one in found.comparisons] == [0.0, 0.0]
    assert [one.energy_error for one in found.comparisons] == [0.0, 0.0]


def test_a_run_faster_than_the_units_is_refused():
    (measured,) = measured_on(H200, run(batch=64))
    least_s = predict_run(measured, H200).least_s

    found = validate([replace(measured, time_s=least_s / 2)])

    assert found.comparisons == ()
    assert found.rejected == {measured.name: "faster than the units can be: 2.00 times their peak"}


def test_a_run_above_the_power_limit_is_refused():
    (measured,) = measured_on(H200, run(batch=64))

    found = validate([replace(measured, energy_j=1000 * measured.time_s)])

    assert found.rejected == {measured.name: "draws 1000 W under a limit of 700 W"}


def test_a_device_outside_the_catalogue_is_told_rather_than_guessed():
    found = validate([run(device="h900")])

    assert found.rejected == {"resnet18 b1": "h900 is not in the catalogue"}


def test_a_whole_host_gives_a_share_rather_than_an_error():
    one = compared(1.0, 0.5, energy_j=2.0, scope="wall")

    assert one.energy_error is None
    assert one.share_of_wall == pytest.approx(0.25)


def test_errors_are_averaged_without_their_signs():
    found = summary([compared(1.0, 1.5), compared(1.0, 0.9), compared(1.0, 1.2)])

    assert found.time_mape == pytest.approx((0.5 + 0.1 + 0.2) / 3)
    assert found.time_median == pytest.approx(0.2)
    assert found.energy_mape is None


def test_errors_are_grouped_by_what_runs_have_in_common():
    points = [compared(1.0, 1.5, family="a"), compared(1.0, 1.0, family="b")]

    found = summaries(points, lambda one: (one.family,))

    assert [(one.label, one.time_mape) for one in found] == [(("a",), 0.5), (("b",), 0.0)]


def test_a_projected_processor_says_that_there_is_no_silicon():
    found = confidence_of(PROCESSORS["kpu_t64"])

    assert (found.tier, found.time_error) == ("D", None)
    assert "no silicon" in found.note


def test_the_calibrated_gpu_shows_its_errors_on_networks_that_no_fit_has_seen():
    """It once showed those of runs from the host and board whose factors were fitted."""
    found = confidence_of(H200)

    assert found.tier == "A"
    of_host = confidence_of(H200, launch_share=0.9)
    assert found.num_points + of_host.num_points > 200
    known = confidence_of(H200, launch_share=0.9, knows_host=True)
    assert (of_host.tier, known.tier) == ("B", "A")
    assert known.time_error < of_host.time_error
    assert "no fit has seen" in found.note
    assert 0.05 < found.time_error < 0.35
    assert 0.05 < found.energy_error < 0.35
