"""Members against their own closed forms."""

import numpy as np
import pytest
from synthetic_runs import rows_by_law

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.base import PowerModel
from joulelab.power_models.operating_model import load_model
from joulelab.power_models.queries import Profile, profile_of, queries_of, sweep
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.state import State, read_state, write_state


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


def test_the_mean_is_the_mean_of_the_training_applications():
    runs = runs_of_rows(rows_by_law(4))

    predicted = POWER_MODELS["mean"]().fit(runs).predict(queries_of(runs))

    for clock_mhz in np.unique(runs.sm_clock_mhz):
        at = runs.sm_clock_mhz == clock_mhz
        assert predicted[at] == pytest.approx(np.full(4, np.exp(np.log(runs.power_w[at]).mean())))


def test_applications_at_other_clocks_do_not_break_the_mean_curve():
    """Watts were averaged at each exact clock: between 100 and 300 W the curve went up and down."""
    rows = [
        {
            "application": application,
            "gpu": "a100_sxm",
            "sm_clock_mhz": clock_mhz,
            "power_w": top_w * clock_mhz / 1410,
            "time_s": 1.0,
        }
        for application, top_w, clocks_mhz in (
            ("low", 100.0, (510, 810, 1110, 1410)),
            ("high", 300.0, (510, 660, 960, 1260, 1410)),
        )
        for clock_mhz in clocks_mhz
    ]
    model = POWER_MODELS["mean"]().fit(runs_of_rows(rows))

    predicted = model.predict(
        sweep(profile_of(runs_of_rows(rows), "a100_sxm", "low"), range(510, 1411, 15))
    )

    expected = np.sqrt(100.0 * 300.0) * np.arange(510, 1411, 15) / 1410
    assert predicted == pytest.approx(expected, rel=0.03)


def test_the_mean_curve_goes_on_where_some_applications_end():
    """Levels were averaged: below 810 MHz, where `flat` ends, power fell to that of `steep`."""
    flat = {810: 150.0, 1110: 150.0, 1410: 150.0}
    steep = {mhz: 150.0 * mhz / 1410 for mhz in (510, 810, 1110, 1410)}
    rows = [
        {"application": name, "gpu": "a100_sxm", "sm_clock_mhz": mhz, "power_w": w, "time_s": 1.0}
        for name, sweep_w in (("flat", flat), ("steep", steep))
        for mhz, w in sweep_w.items()
    ]
    runs = runs_of_rows(rows)

    predicted = (
        POWER_MODELS["mean"]()
        .fit(runs)
        .predict(sweep(profile_of(runs, "a100_sxm", "flat"), [510, 810, 1410]))
    )

    at_810_w = 150.0 * np.sqrt(810 / 1410)
    assert predicted == pytest.approx([at_810_w * 510 / 810, at_810_w, 150.0])


def test_a_removed_model_is_refused_with_what_to_take_instead(tmp_path):
    POWER_MODELS["mean"]().fit(runs_of_rows(rows_by_law(3))).save(tmp_path)
    kept = read_state(tmp_path)
    write_state(tmp_path, State(values={**kept.values, "name": "ridge"}, arrays=kept.arrays))

    with pytest.raises(UnknownNameError, match=r"'ridge' was removed: .* train 'stacked'"):
        load_model(tmp_path)
    assert "ridge" not in POWER_MODELS


class Forgetful(PowerModel):
    """Names what it learned with the underscore, which is added."""

    name = "forgetful"
    learned_values = ("_level",)

    def learn(self, queries, values, groups):
        self._level = float(np.mean(values))
        return self

    def answer(self, queries):
        return np.full(len(queries), self._level)


def test_what_a_member_names_as_learned_and_did_not_set_is_told(tmp_path):
    model = Forgetful("power_w").fit(runs_of_rows(rows_by_law(3)))

    with pytest.raises(ConfigError, match=r"Forgetful must set self\.__level.*'_level'"):
        model.save(tmp_path / "model")
