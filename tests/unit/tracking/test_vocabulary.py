from dataclasses import replace

import pytest
from synthetic_results import energy_j, measurement, time_s

from joulelab.core.device import Activity
from joulelab.core.measurement import Board, Finding, Observed
from joulelab.core.quality import Quality
from joulelab.tracking.vocabulary import DERIVED, metrics, params, tags

THROTTLED = Finding(reason="throttled", detail="The power cap held for 40 % of the time.")


def test_metrics_are_the_measurement_under_its_own_names():
    measured = measurement(clock_mhz=1000)

    listed = metrics(measured)

    assert listed["energy_per_unit_j"] == pytest.approx(energy_j(1000))
    assert listed["edp_js"] == pytest.approx(energy_j(1000) * time_s(1000))
    assert all(listed[name] == getattr(measured, name) for name in DERIVED)
    assert listed["observed.sm_clock_mhz"] == 1000


def test_tags_say_at_which_pace_it_was_measured():
    """Runs in MLflow did not tell a quick point of 0.9 s from the whole procedure."""
    measured = measurement()

    assert [tags(measured)["pace"], tags(replace(measured, pace="quick"))["pace"]] == [
        "reference", "quick",
    ]  # fmt: skip


def test_an_invalid_measurement_has_no_number_that_derives_from_its_windows():
    listed = metrics(measurement(findings=[THROTTLED]))

    assert not set(listed) & set(DERIVED)
    assert listed["observed.temperature_start_c"] == 55.0


def test_what_the_workload_told_is_there_unless_the_measurement_is_invalid():
    told = {"figures": (("ttft_p50_s", 0.25),)}

    listed = metrics(replace(measurement(), **told))
    invalid = metrics(replace(measurement(findings=[THROTTLED]), **told))

    assert listed["figures.ttft_p50_s"] == 0.25
    assert "figures.ttft_p50_s" not in invalid


def test_what_was_not_read_is_absent():
    seen = Observed(sm_clock_mhz=None, warmup_steady=True, activity=Activity(sm_active=0.9))

    listed = metrics(replace(measurement(), observed=seen))

    assert listed["observed.activity.sm_active"] == 0.9
    assert listed["observed.warmup_steady"] == 1.0
    assert "observed.sm_clock_mhz" not in listed
    assert "observed.activity.dram_active" not in listed


def test_scores_are_listed_under_their_metric_even_of_an_invalid_measurement():
    scored = Quality(
        metric="accuracy", direction="higher", score=0.9, n=50, counted="image", data="digits",
        source_hash="0123", retention=0.95,
    )  # fmt: skip

    listed = metrics(replace(measurement(findings=[THROTTLED]), quality=(scored,)))

    assert {name: listed[name] for name in listed if name.startswith("quality.")} == {
        "quality.accuracy.score": 0.9,
        "quality.accuracy.retention": 0.95,
    }


def test_params_are_the_request():
    listed = params(measurement(clock_mhz=1500))

    assert listed["sm_clock_mhz"] == 1500
    assert listed["power_limit_w"] is None
    assert listed["batch"] == 8
    assert listed["workload"] == "llama"


def test_tags_say_where_it_ran_and_whether_to_believe_it():
    listed = tags(measurement(index=3, findings=[THROTTLED]))

    assert listed["device.uuid"] == "SIM-invented-3"
    assert listed["valid"] == "false"
    assert listed["invalid_reasons"] == "throttled"
    assert listed["provenance.git_sha"] == "0123456789ab"
    assert "device.vbios_version" not in listed


def test_what_each_of_several_boards_used_of_a_unit_is_listed_unless_it_is_not_known():
    one = measurement(clock_mhz=1000)
    known = Board(
        device=one.device, windows=one.windows, idle=None, observed=one.observed, findings=()
    )

    listed = metrics(replace(one, boards=(known, replace(known, findings=(THROTTLED,)))))

    assert listed["gpu0.energy_per_unit_j"] == pytest.approx(energy_j(1000))
    assert "gpu1.energy_per_unit_j" not in listed
