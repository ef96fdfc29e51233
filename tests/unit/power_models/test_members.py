"""Members against their own closed forms."""

import numpy as np
import pytest
from synthetic_runs import rows_by_law

from joulelab.power_models import POWER_MODELS
from joulelab.power_models.queries import Profile, queries_of, sweep
from joulelab.power_models.readers import runs_of_rows


def runs_of(power_w, clocks_mhz, num_applications=3):
    """Return runs of equal applications that draw ``power_w`` at each of ``clocks_mhz``."""
    template = rows_by_law(num_applications, clocks_mhz=clocks_mhz)
    powers = list(power_w) * num_applications
    return runs_of_rows(
        [row | {"power_w": float(watts)} for row, watts in zip(template, powers, strict=True)]
    )


def test_published_constants_give_the_published_power():
    """P = exp(-1.03184 + 0.84864 fp + 0.09749 dram + 0.77006 ln(1 + f)) - 1 at 1380 MHz."""
    profile = Profile(
        application="dgemm",
        gpu="v100_pcie",
        board="v100_pcie",
        clock_mhz=1380.0,
        activity={"fp_active": 0.967, "dram_active": 0.623},
    )
    model = POWER_MODELS["fgcs_published"]().fit(runs_of_rows(rows_by_law(3)))

    predicted = model.predict(sweep(profile, [1380.0]))

    logs = -1.0318354343254663 + 0.84864 * 0.967 + 0.09749 * 0.623 + 0.77006 * np.log(1381.0)
    assert predicted == pytest.approx([np.exp(logs) - 1.0], rel=1e-9)


def test_published_time_is_longer_than_measured_at_the_top_clock_by_the_known_factor():
    """The published form is exp(1.43848 fp - 0.90401 fp^2) at the top clock, and not 1."""
    rows = [row | {"fp_active": 0.5} for row in rows_by_law(3)]
    runs = runs_of_rows(rows)
    model = POWER_MODELS["fgcs_published"]("time_s").fit(runs)
    top = queries_of(runs.select(runs.sm_clock_mhz == 1410))

    factor = model.predict(top) / np.array([p.time_s for p in top.profiles])

    expected = np.exp(1.43847511 * 0.5 - 0.90400864 * 0.25)
    assert factor == pytest.approx(np.full(3, expected), rel=1e-9)


def test_piecewise_finds_a_line_and_the_parabola_beyond_its_turn():
    clocks_mhz = tuple(range(510, 1411, 75))
    ratio = np.array(clocks_mhz) / 1410.0
    turn = 0.7
    power_w = 60.0 + 100.0 * ratio + 300.0 * np.maximum(0.0, ratio - turn) ** 2
    runs = runs_of(power_w, clocks_mhz)

    predicted = POWER_MODELS["piecewise"]().fit(runs).predict(queries_of(runs))

    assert predicted == pytest.approx(runs.power_w, rel=2e-3)


def test_the_mean_is_the_mean_of_the_training_applications():
    runs = runs_of_rows(rows_by_law(4))

    predicted = POWER_MODELS["mean"]().fit(runs).predict(queries_of(runs))

    for clock_mhz in np.unique(runs.sm_clock_mhz):
        at = runs.sm_clock_mhz == clock_mhz
        assert predicted[at] == pytest.approx(np.full(4, runs.power_w[at].mean()))


def test_the_ridge_clock_of_a_known_law_is_found():
    clocks_mhz = tuple(range(510, 1411, 75))
    ratio = np.array(clocks_mhz) / 1410.0
    power_w = 50.0 + 150.0 * ratio * (1.0 + 1.0 * np.maximum(0.0, ratio - 0.7)) ** 2
    runs = runs_of(power_w, clocks_mhz)

    predicted = POWER_MODELS["ridge"]().fit(runs).predict(queries_of(runs))

    assert predicted == pytest.approx(runs.power_w, rel=1e-3)


def test_a_residual_that_helps_nobody_leaves_physics_as_it_is():
    runs = runs_of_rows(rows_by_law(3))
    asked = queries_of(runs_of_rows(rows_by_law(1, seed=7)))

    plain, residual = (
        POWER_MODELS[name](calibration_folds=0).fit(runs).predict(asked)
        for name in ("physics", "physics_residual")
    )

    assert residual == pytest.approx(plain)


def test_a_residual_is_not_carried_to_a_gpu_that_was_never_seen():
    """That of an A40 at its cap was, to an A100: 11 % of power where the law alone gave 3 %."""
    rows = [
        row | {"power_w": float(row["power_w"]) * (1.2 if row["sm_clock_mhz"] < 800 else 1.0)}
        for row in rows_by_law(10)
    ]
    model, plain = (
        POWER_MODELS[name](calibration_folds=0).fit(runs_of_rows(rows))
        for name in ("physics_residual", "physics")
    )
    here, there = (
        queries_of(runs_of_rows(rows_by_law(2, seed=7, gpu=gpu, clocks_mhz=clocks_mhz)))
        for gpu, clocks_mhz in (("a100_sxm", (510, 705, 1410)), ("v100_pcie", (510, 705, 1380)))
    )

    assert np.abs(model.predict(here) / plain.predict(here) - 1.0).max() > 0.01
    assert model.predict(there) == pytest.approx(plain.predict(there))
