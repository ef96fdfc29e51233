"""Trace models on recordings: of an H200 where they are there, and of simulated boards."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from reference_data import reference_csv

from joulelab.power_models.traces import BASELINE, TRACE_MODELS
from joulelab.power_models.traces.model import leave_one_trace_out

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from trace_recordings import LIMIT_W, measured_traces, simulated_traces

MAKE = partial(TRACE_MODELS[BASELINE], calibration_folds=0, power_limit_w=LIMIT_W)


@pytest.fixture(scope="module")
def measured():
    return measured_traces(reference_csv("h200_duty_cycle.csv").parent)


@pytest.fixture(scope="module")
def simulated():
    return simulated_traces(5, duration_s=8.0)


def test_half_of_the_held_out_recordings_of_an_h200_are_within_four_percent(measured):
    scores = leave_one_trace_out(MAKE, measured)

    assert scores.median <= 0.04
    assert len(scores.energy_error) == 27


def test_the_steps_hold_the_energy_of_the_counter(measured):
    (steps,) = [trace for trace in measured if trace.name == "steps"]

    # From the file: the counter's mean over the recording, and the two levels it goes between.
    assert steps.power_w.mean() == pytest.approx(415.0, rel=0.05)
    assert np.median(steps.power_w[steps.schedule.phase == "idle"]) == pytest.approx(130, rel=0.02)


def test_simulated_boards_are_predicted_as_well_as_their_sensors_agree(simulated):
    scores = leave_one_trace_out(MAKE, simulated)

    # Gains of boards scatter by 3 %.
    assert scores.median < 0.06


def test_a_simulated_trace_has_the_phases_and_activities_of_its_load(simulated):
    trace = simulated[0]
    decode = trace.schedule.phase == "decode"
    idle = trace.schedule.phase == "idle"

    assert trace.schedule.inputs["dram_active"][decode].mean() > 0.3
    assert trace.schedule.inputs["sm_active"][idle].mean() < 0.1
    assert trace.power_w[decode].mean() > 1.5 * trace.power_w[idle].mean()
