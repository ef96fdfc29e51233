"""Published measurements as runs, what is predicted of them, and families held out of a fit."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from reference_data import reference_csv
from resnet_runs import as_measured, resnet_run

from joulelab.errors import ConfigError
from joulelab.hardware.processors import PROCESSORS

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from held_out import BOARD, HOST, fit_factors, hold_out, scaled
from published_predictions import predict_run
from published_runs import PublishedRun, read_h200_runs, read_reference_points

H200 = PROCESSORS["h200_sxm"]
run = partial(resnet_run, PublishedRun)
measured_on = partial(as_measured, predict_run)


def test_a_free_batch_is_the_fastest_per_sample():
    choices = run(batch=64, free_batches=(1, 8, 64))

    found = predict_run(choices, H200)

    each = [predict_run(run(batch=size), H200).time_s * 64 / size for size in (1, 8, 64)]
    assert found.time_s == pytest.approx(min(each))


def test_a_run_at_clocks_for_least_energy_ran_at_the_slowest_that_keeps_up():
    full = predict_run(run(batch=64), H200)

    paced = predict_run(run(batch=64, paced_s=2 * full.time_s), H200)

    assert 1.9 * full.time_s < paced.time_s <= 2 * full.time_s
    assert paced.energy_j < full.energy_j


def test_a_run_faster_than_the_device_alone_is_taken_at_its_default_clock():
    full = predict_run(run(batch=64), H200)

    paced = predict_run(run(batch=64, paced_s=full.time_s / 2), H200)

    assert paced.time_s == pytest.approx(full.time_s)
    assert paced.energy_j == pytest.approx(full.energy_j)


def test_a_device_that_others_helped_drew_power_as_long_as_it_took():
    alone = predict_run(run(batch=64), H200)

    helped = predict_run(run(batch=64, paced_s=alone.time_s / 2, clock_mhz=1980), H200)

    assert helped.energy_j == pytest.approx(alone.energy_j / 2)


def test_images_that_lie_pixel_by_pixel_need_no_change_of_layout():
    channels_first = predict_run(run(batch=256), H200)  # the host sets the time of smaller ones

    channels_last = predict_run(run(batch=256, is_channels_last=True), H200)

    assert channels_last.time_s < 0.9 * channels_first.time_s


def test_inputs_that_come_over_a_link_are_waited_for():
    there = predict_run(run(batch=64), H200)

    copied = predict_run(run(batch=64, host_link_b_per_s=25e9), H200)

    image_b = 3 * 224 * 224 * 2
    assert copied.time_s - there.time_s == pytest.approx(64 * image_b / 25e9)
    assert copied.energy_j > there.energy_j


def test_a_batch_that_does_not_fit_is_not_chosen():
    huge = run(model="resnet50", batch=64, free_batches=(1, 100_000))

    assert predict_run(huge, H200).time_s == pytest.approx(
        64 * predict_run(run(model="resnet50"), H200).time_s
    )


def test_a_slower_host_is_found_again():
    slow = scaled(H200, {HOST: 2.5})

    factors = fit_factors(H200, measured_on(slow, run(), run(batch=4)), [HOST])

    assert factors[HOST] == pytest.approx(2.5, rel=0.02)  # what it was is held against a change


def test_the_family_that_is_held_out_bends_nothing():
    as_predicted = measured_on(H200, run(), run(batch=4))
    slow = measured_on(scaled(H200, {HOST: 3.0}), run(family="other"), run(2, family="other"))

    found = hold_out(H200, [*as_predicted, *slow], [HOST])

    assert found.factors["other"][HOST] == pytest.approx(1.0, abs=0.01)
    assert found.factors["resnet18"][HOST] == pytest.approx(3.0, rel=0.02)
    assert found.comparisons[2].time_error == pytest.approx(1 / 3 - 1, abs=0.1)


def test_the_gain_of_a_boards_sensor_is_found_up_to_what_boards_differ_by():
    runs = measured_on(H200, run(), run(batch=4))

    read_high = [replace(one, energy_j=1.03 * one.energy_j) for one in runs]
    read_double = [replace(one, energy_j=2.0 * one.energy_j) for one in runs]

    assert fit_factors(H200, read_high, [BOARD])[BOARD] == pytest.approx(1.03, abs=0.002)
    assert fit_factors(H200, read_double, [BOARD])[BOARD] == pytest.approx(1.05)


def test_one_family_cannot_be_held_out():
    with pytest.raises(ConfigError, match="two families of models or more"):
        hold_out(H200, measured_on(H200, run()))


def test_energy_of_a_generation_is_of_all_its_tokens():
    runs = {one.name: one for one in read_h200_runs(reference_csv("h200_workloads.csv"))}

    one = runs["llama7b_bfloat16_gen64_b4"]

    assert one.knobs == {"prompt_tokens": 128, "new_tokens": 64}
    assert one.energy_j == pytest.approx(1.191188 * 4 * 64, rel=1e-4)
    assert one.energy_j / one.time_s == pytest.approx(201.97, rel=1e-3)
    assert len(runs) == 36


def test_throughput_of_a_system_is_shared_by_its_devices():
    path = reference_csv("estimator_reference_points.csv")
    runs = {one.name: one for one in read_reference_points(path).runs}

    one = runs["line 5: resnet50 Offline"]  # eight A100 PCIe, 316,169 images per second

    assert (one.device, one.precision, one.mode) == ("a100_pcie", "int8", "engine")
    assert one.time_s == pytest.approx(64 * 8 / 316169)


def test_the_share_of_deep_learning_accelerators_is_told():
    path = reference_csv("estimator_reference_points.csv")
    orin = [one for one in read_reference_points(path).runs if one.device == "jetson_orin_agx"]

    helped = [one for one in orin if one.scenario == "Offline with DLAs"]

    assert {one.family for one in helped} == {"resnet50", "retinanet"}
    assert {one.clock_mhz for one in helped if one.scope == "wall"} == {625, 523}
    assert {one.clock_mhz for one in orin if one.scenario == "SingleStream"} == {None}


def test_points_that_cannot_be_compared_are_counted_by_reason():
    found = read_reference_points(reference_csv("estimator_reference_points.csv"))

    assert len(found.runs) + sum(found.left_out.values()) == 933
    assert found.left_out["measured for this project; compared on its own"] == 49
