"""Runs that a power limit held: at which clock they are taken to be, and what follows from it."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from reference_data import reference_csv
from synthetic_runs import law, runs_by_law

from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.power_models.decision import CHOSEN_BY
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.operating_model import OperatingModel, load_operating_model
from joulelab.power_models.queries import profile_of, queries_of, sweep
from joulelab.power_models.readers import read_csv, runs_of_rows
from joulelab.power_models.runs import held_without_clock, usual_held_mhz

V100 = GPUS["v100_pcie"]
LIMIT_W, TOP_MHZ = float(V100.default_power_limit_w), float(V100.default_clock_mhz)
HELD_MHZ = 1140.0
CLOCKS_MHZ = np.arange(690.0, TOP_MHZ + 1.0, 30.0)


@functools.cache
def fitted():
    power, time = (PhysicsModel(target, calibration_folds=0) for target in ("power_w", "time_s"))
    return OperatingModel(power=power, time=time).fit(runs_by_law(12))


def at_limit(*, read=False, limit_w=LIMIT_W, application="hot"):
    """Return the sweep of a load whose power reaches the limit at 1140 MHz."""
    units = {"fp": 0.4, "dram": 0.1, "sm": 0.9}
    held_w, _ = law(**units, ratio=HELD_MHZ / TOP_MHZ)
    rows = []
    for asked_mhz in CLOCKS_MHZ.tolist():
        ran_mhz = min(asked_mhz, HELD_MHZ)
        power_w, time = law(**units, ratio=ran_mhz / TOP_MHZ)
        row = {"application": application, "gpu": "v100_pcie", "sm_clock_mhz": asked_mhz}
        row |= {"power_w": 0.985 * limit_w * power_w / held_w, "time_s": 10.0 * time}
        row |= {f"{name}_active": value for name, value in units.items()}
        rows.append(row | ({"observed_sm_clock_mhz": ran_mhz} if read else {}))
    return runs_of_rows(rows)


def test_a_run_at_its_limit_was_held_unless_its_clock_was_read():
    assert held_without_clock(at_limit()).sum() == (CLOCKS_MHZ >= HELD_MHZ).sum()
    assert not held_without_clock(at_limit(read=True)).any()


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_board_below_its_limit_or_with_another_one_was_not_held(share):
    assert not held_without_clock(at_limit(limit_w=share * LIMIT_W)).any()


def test_a_limit_holds_runs_where_it_usually_held_those_whose_clock_was_read():
    """Of 95 applications at the limit of an H200 half ran at 1725 to 1942 MHz, the median at 1865.

    GEMMs, which the middle of what is possible was taken from, run at 1425 to 1725.
    """
    h200 = GPUS["h200_sxm"]

    assert 1725 <= usual_held_mhz(h200, 1980.0, 700.0) <= 1942
    assert usual_held_mhz(h200, 1980.0, 500.0) < usual_held_mhz(h200, 1980.0, 700.0)
    assert usual_held_mhz(h200, 900.0, 700.0) == 900.0


@pytest.mark.parametrize(("ratios", "name"), [((1.0,), "power_w"), ((1.0, 0.6), "time_s")])
def test_a_held_run_errs_less_than_as_one_at_the_clock_that_was_asked_for(ratios, name):
    runs = at_limit()
    queries = queries_of(runs)
    anchored = queries.nearest(ratios)
    anchors = runs.select(anchored)
    aware = fitted().adapt(anchors, profiled=runs)
    unaware = OperatingModel(
        power=fitted().power.adapt(anchors, profiled=runs),
        time=fitted().time.adapt(anchors, profiled=runs),
    )

    error, as_asked = (
        np.abs(model.predict(queries, name) / getattr(runs, name) - 1.0)[~anchored].mean()
        for model in (aware, unaware)
    )

    assert error < 0.9 * as_asked


def test_from_two_points_the_clock_that_was_held_is_found():
    runs = at_limit()
    anchored = queries_of(runs).nearest((1.0, 0.6))

    model = fitted().adapt(runs.select(anchored), profiled=runs)

    assert model.power.held_mhz == model.time.held_mhz
    assert model.power.held_mhz["v100_pcie", "hot"] == pytest.approx(HELD_MHZ, rel=0.1)


def test_above_the_held_clock_nothing_changes_and_it_is_stored(tmp_path):
    runs = at_limit()
    queries = queries_of(runs)
    anchors = runs.select(queries.nearest((1.0, 0.6)))
    model = fitted().adapt(anchors, profiled=runs)
    model.save(tmp_path)

    power_w = load_operating_model(tmp_path).predict(queries, "power_w")

    assert power_w == pytest.approx(model.predict(queries, "power_w"))
    assert np.ptp(power_w[model.power.held_mhz["v100_pcie", "hot"] < CLOCKS_MHZ]) == 0.0
    assert not fitted().power.held_mhz  # the model that was adapted stays as it is


def test_a_held_run_whose_clock_was_read_is_a_profile_there():
    """Runs below 90 % of the default clock were refused, and so every capped one."""
    runs = at_limit(read=True)

    profile = profile_of(runs, *runs.pairs[0])
    model = fitted().adapt(runs.select(runs.sm_clock_mhz == HELD_MHZ))

    assert profile.clock_mhz == HELD_MHZ < 0.9 * TOP_MHZ
    assert not model.power.held_mhz
    assert model.predict(queries_of(runs), "power_w")[-1] == pytest.approx(runs.power_w.max())


@pytest.mark.parametrize("anchored", [False, True])
def test_no_clock_above_one_that_was_seen_to_be_held_is_predicted_or_chosen(anchored):
    """Of an H200 held at 1470 MHz 1980 MHz was chosen, at 19 % less time and energy."""
    runs = at_limit(read=True)
    asked_mhz = [HELD_MHZ, 1260.0, TOP_MHZ]
    model = fitted().adapt(runs) if anchored else fitted()
    queries = sweep(profile_of(runs, *runs.pairs[0]), asked_mhz)

    power_w, time_s = (model.predict(queries, name) for name in ("power_w", "time_s"))

    assert power_w == pytest.approx(power_w[0])
    assert time_s == pytest.approx(time_s[0])
    assert model.reaches(queries).tolist() == [True, False, False]
    assert [model.choose(queries, name).row for name in CHOSEN_BY] == [0, 0, 0]


def test_a_clock_that_was_seen_under_the_limit_is_reached_whatever_the_model_says():
    runs = at_limit(read=True)
    profile = replace(profile_of(runs, *runs.pairs[0]), held_mhz=None, power_limit_w=100.0)

    queries = sweep(profile, [HELD_MHZ, TOP_MHZ])

    assert fitted().reaches(queries).tolist() == [True, False]


def test_a_board_above_its_limit_has_another_one_and_is_not_held():
    runs = at_limit(read=True, limit_w=1.1 * LIMIT_W)

    assert runs.reached(0) == (HELD_MHZ, False)


def test_a_run_at_a_low_clock_that_no_limit_held_is_no_profile():
    runs = at_limit(limit_w=0.8 * LIMIT_W, read=True)

    with pytest.raises(ConfigError, match="near the default clock"):
        profile_of(runs, *runs.pairs[0])


def test_the_clock_at_which_an_a40_was_held_is_found_from_two_points():
    """Public stages of a language model: from 1470 to 1500 MHz on neither power nor time change."""
    table = read_csv(
        reference_csv("llm_stage_dvfs.csv"),
        boards={"A100-SXM4-80GB": "a100_sxm", "A40": "a40"},
    )
    runs = table.select(table.gpu == "A40")
    model = OperatingModel(
        power=PhysicsModel(calibration_folds=0), time=PhysicsModel("time_s", calibration_folds=0)
    ).fit(table.select(table.gpu != "A40"))

    anchors = runs.select(queries_of(runs).nearest((1.0, 0.6)))
    held_mhz = model.adapt(anchors, profiled=runs).power.held_mhz

    assert len(held_mhz) == 4
    assert list(held_mhz.values()) == pytest.approx([1485.0] * 4, rel=0.08)


def test_a_board_that_its_limit_holds_does_not_wait():
    """A model of programs that wait let eight held H200 lose too little under lower limits."""
    waiting = runs_by_law(12)
    slow = replace(waiting, time_s=10.0 * (waiting.time_s / 10.0) ** 0.1)
    power, time = (PhysicsModel(target, calibration_folds=0) for target in ("power_w", "time_s"))
    model = OperatingModel(power=power, time=time).fit(slow)
    runs = at_limit()
    top = runs.select(queries_of(runs).nearest((1.0,)))

    found = [
        each.predict(queries_of(runs), "time_s")[0] / runs.time_s.min()
        for each in (model.adapt(top, profiled=runs), model)
    ]

    assert found[0] > 1.3 > found[1]
