"""What a clock is worth measuring, where that can be told by hand."""

import numpy as np
import pytest
from synthetic_runs import runs_by_law

from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.worth import Drawn, drawn_from, expected_regrets

FLAT = Drawn(logs=np.zeros((200, 3)), reading_error=0.01)
AT = np.log(np.array([1.0, 0.75, 0.5]))


def kinds(apart, error=0.01):
    """Return curves of two kinds, best at the second and at the third clock by ``apart``."""
    kind = np.tile([0.0, 1.0], 100)
    logs = np.column_stack([0.5 + 0.0 * kind, apart * kind, apart * (1.0 - kind)])
    return Drawn(logs=logs, reading_error=error)


def test_a_clock_at_which_all_curves_agree_tells_nothing():
    """Either kind is chosen, and half of the curves are of the other one."""
    nothing, second, third = expected_regrets(kinds(0.2), FLAT, 2)

    assert nothing == pytest.approx(np.expm1(0.2) / 2, rel=0.02)
    assert second == pytest.approx(0.0, abs=1e-6)
    assert third == pytest.approx(0.0, abs=1e-6)


def test_time_counts_by_its_exponent():
    regrets = expected_regrets(FLAT, kinds(0.1), 2)

    assert regrets[0] == pytest.approx(np.expm1(0.2) / 2, rel=0.02)


def test_a_reading_that_scatters_leaves_the_wrong_kind_as_often_as_normal_numbers_do():
    """Half of 0.2 is one standard deviation of the reading: it misleads 16 % of the time."""
    regrets = expected_regrets(kinds(0.2, error=0.1), FLAT, 2)

    assert regrets[1] == pytest.approx(0.159 * np.expm1(0.2), rel=0.3)


def test_curves_of_a_line_are_as_far_apart_as_its_anchors_leave_them():
    """Slope of variance 1 + 0.1^2 before, a reading at half the clock; the posterior by hand."""
    error = np.hypot(np.sqrt(2.0) * 0.005, 0.015)
    before, after = (
        drawn_from(
            lambda moved, at=at: moved[0] * at,
            1,
            at,
            num_anchors=len(at) - 3,
            scatter=0.005,
            num_curves=4000,
            seed=0,
        )
        for at in (AT, np.append(AT, AT[2]))
    )

    prior = 1.01 * AT[2] ** 2
    assert before.logs.shape == after.logs.shape == (4000, 3)
    assert before.logs[:, 2].var() == pytest.approx(prior, rel=0.1)
    assert after.logs[:, 2].var() == pytest.approx(1 / (1 / prior + 1 / error**2), rel=0.1)


@pytest.mark.parametrize("target", ["power_w", "time_s"])
def test_a_second_anchor_leaves_less_of_the_curves_of_an_application(target):
    model = PhysicsModel(target, calibration_folds=0).fit(
        runs_by_law(8, clocks_mhz=tuple(range(510, 1411, 60)), noise=0.003)
    )
    unseen = runs_by_law(1, seed=7)
    asked = sweep(profile_of(unseen, "a100_sxm", "app00"))

    one, two = (
        model.adapt(unseen.select(np.isin(unseen.sm_clock_mhz, clocks)), profiled=unseen)
        .drawn(asked, 100)
        .logs.std(axis=0)
        for clocks in ([1410], [900, 1410])
    )

    assert two[asked.sm_clock_mhz == 900] < 0.5 * one[asked.sm_clock_mhz == 900]
    assert two.mean() < one.mean()
