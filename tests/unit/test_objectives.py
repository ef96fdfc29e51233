"""Objectives are one table: one that another package adds is what sweeps, policies, searches,
estimates and power models choose by."""

from math import exp

import numpy as np
import pytest
from estimates_by_hand import processor
from synthetic_results import energy_j, measurement, time_s

from joulelab.analysis.plots import phase_figure
from joulelab.analysis.policy import applications_of
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_frame
from joulelab.cli.estimate_sweep import best_curve, cost_per_work
from joulelab.errors import ConfigError
from joulelab.estimator.question import Curve
from joulelab.objectives import EDP, OBJECTIVES, QEP, Objective, without_quality
from joulelab.power_models.decision import Sweep
from joulelab.searching.base import Figures, cost_of

ED3P = Objective(name="ed3p", time_exponent=3.0)
CLOCKS_MHZ = tuple(range(600, 1951, 150))


@pytest.fixture(autouse=True)
def of_a_plug_in(monkeypatch):
    monkeypatch.setitem(OBJECTIVES._targets, "ed3p", f"{__name__}:ED3P")


def swept():
    return [
        measurement(clock, repeat=repeat, minute=10 * i + repeat, relative_u=1e-6)
        for i, clock in enumerate([None, *CLOCKS_MHZ])
        for repeat in range(2)
    ]


def best_mhz():
    return min(CLOCKS_MHZ, key=lambda clock: energy_j(clock) * time_s(clock) ** 3)


@pytest.mark.parametrize(
    ("name", "cost", "label", "unit"),
    [
        ("energy", 200, "energy", "J"),
        ("time", 4, "time", "s"),
        ("edp", 800, "EDP", "J s"),
        ("ed2p", 3200, "ED2P", "J s²"),
        ("ed3p", 12800, "ED3P", "J s³"),
    ],
)
def test_objectives_match_their_definitions(name, cost, label, unit):
    objective = OBJECTIVES[name]

    assert objective.cost(200.0, 4.0) == pytest.approx(cost)
    assert (objective.label, objective.unit) == (label, unit)


def test_a_sweep_is_judged_by_it_and_shows_it():
    result = analyse_sweep(swept(), "ed3p")
    (phase,) = result.phases

    lowest = phase.row(phase.lowest)
    assert lowest.point.sm_clock_mhz in (None, best_mhz())
    figures = phase.row(f"{best_mhz()}MHz").figures
    assert figures.cost == pytest.approx(energy_j(best_mhz()) * time_s(best_mhz()) ** 3)
    titles = [axes.get_title(loc="left") for axes in phase_figure(phase).axes]
    assert any(title.startswith("ED3P") for title in titles)
    found = sweep_frame(result)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert {row["objective"] for row in rows} == {"ed3p"}
    assert rows[1]["cost"] == pytest.approx(rows[1]["ed2p_js2"] * rows[1]["time_per_unit_s"])


def test_a_policy_is_chosen_by_it():
    (found,) = applications_of(swept(), "ed3p")

    ratio = found.fit.ratio("600MHz", f"{best_mhz()}MHz").value
    expected = energy_j(600) * time_s(600) ** 3 / (energy_j(best_mhz()) * time_s(best_mhz()) ** 3)
    assert ratio == pytest.approx(expected)


def test_a_search_costs_by_it():
    figures = Figures(
        energy_j=200.0, energy_u_j=1.0, time_s=4.0, time_u_s=0.1, power_w=50.0, board="0"
    )

    assert exp(cost_of(ED3P, figures).log) == pytest.approx(12800)


def test_a_model_chooses_a_clock_by_it():
    clocks = np.array(CLOCKS_MHZ, dtype=float)
    time, energy = np.array([[time_s(c), energy_j(c)] for c in CLOCKS_MHZ]).T

    sweep = Sweep(sm_clock_mhz=clocks, power_w=energy / time, time_s=time)

    assert clocks[sweep.best("ed3p")] == best_mhz()


def test_a_predicted_sweep_compares_batches_by_what_a_unit_of_work_costs():
    one = {"model": "network", "processor": processor(), "precision": "fp16", "phase": "forward"}
    one |= {"unit": "image", "clocks_mhz": (1000,), "default": 0, "keeps": (True,)}
    single = Curve(**one, batch=1, work=1.0, energy_j=(1.0,), latency_s=(1.0,))
    pair = Curve(**one, batch=2, work=2.0, energy_j=(2 * 0.8,), latency_s=(2 * 0.9,))

    assert cost_per_work(pair, 0, "ed3p") == pytest.approx(0.8 * 0.9**3)
    assert best_curve([single, pair], "ed3p") is pair


def test_one_with_quality_is_for_searches_that_evaluate_it():
    with pytest.raises(ConfigError, match="without quality"):
        without_quality("qep")
    assert OBJECTIVES["qep"] is QEP
    assert without_quality("edp") is EDP


def test_a_negative_exponent_is_refused():
    with pytest.raises(ConfigError, match="not negative"):
        Objective(name="own", time_exponent=-1)


def test_what_is_no_objective_is_none():
    with pytest.raises(ConfigError, match="must be an Objective"):
        OBJECTIVES.accept("max", max)
