"""What a sweep shows by itself: how far points scatter, and the cap that a board was at."""

import functools

import numpy as np
import pytest
from synthetic_runs import rows_by_law

from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.readings import caps_seen, off_neighbours, own_scatter
from joulelab.power_models.operating_model import load_model
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows

CLOCKS_MHZ = np.arange(510.0, 1411.0, 15.0)


def rows(application, share, scatter=0.0, seed=0):
    """Return a sweep of whose time ``share`` goes with the inverse of the clock, scattered."""
    noise = scatter * np.random.default_rng(seed).standard_normal(len(CLOCKS_MHZ))
    times_s = (1.0 - share + share * 1410.0 / CLOCKS_MHZ) * np.exp(noise)
    return [
        {
            "application": application,
            "gpu": "a100_sxm",
            "sm_clock_mhz": clock_mhz,
            "power_w": 100.0 + 0.1 * clock_mhz,
            "time_s": time_s,
        }
        for clock_mhz, time_s in zip(CLOCKS_MHZ.tolist(), times_s.tolist(), strict=True)
    ]


def test_the_scatter_of_independent_points_is_found_whatever_their_order():
    loud = [row for n in range(20) for row in rows(f"loud{n}", 0.7, scatter=0.05, seed=n)]
    runs = runs_of_rows([*rows("quiet", 0.7), *loud])
    mixed = runs.select(np.random.default_rng(1).permutation(len(runs)))
    queries = queries_of(mixed)

    scatter = own_scatter(queries, mixed.time_s)

    quiet = np.array([profile.application == "quiet" for profile in queries.profiles])
    assert scatter[quiet] < 2e-4
    assert scatter[~quiet].mean() == pytest.approx(0.05, rel=0.1)


def test_a_failed_point_and_a_short_sweep_tell_no_scatter():
    runs = runs_of_rows(rows("quiet", 0.7))
    failed = runs.time_s.copy()
    failed[30] *= 3.0
    few = runs.select(np.arange(len(runs) - 4, len(runs)))

    assert own_scatter(queries_of(runs), failed)[0] < 5e-4
    assert own_scatter(queries_of(few), few.time_s * [1.0, 2.0, 1.0, 2.0])[0] == 0.0


def test_the_difference_from_neighbours_is_scaled_to_one_value():
    values = np.random.default_rng(0).standard_normal(100_000)

    assert off_neighbours(values).std() == pytest.approx(1.0, rel=0.02)


def test_a_time_measured_badly_at_the_default_clock_does_not_steer_others():
    """All its other times are over it: 15 % too short, it made every application look slower."""
    loud = rows("loud", 0.5, scatter=0.06)
    loud[-1]["time_s"] = 0.85
    train = [*loud, *rows("one", 0.5), *rows("two", 0.5)]
    asked = runs_of_rows(rows("unseen", 0.5))
    model = PhysicsModel("time_s", calibration_folds=0).fit(runs_of_rows(train))

    error = np.abs(model.predict(queries_of(asked)) / asked.time_s - 1.0)

    assert error.mean() < 0.01


A100_LIMIT_W = 400.0


def runs(*, gain=1.7, cap_w=np.inf, **kinds):
    rows = rows_by_law(8, **kinds)
    return runs_of_rows(
        [row | {"power_w": min(gain * float(row["power_w"]), cap_w)} for row in rows]
    )


FREE, CAPPED = runs(), runs(cap_w=A100_LIMIT_W)
AT_CAP = FREE.power_w > A100_LIMIT_W


@functools.cache
def fitted():
    return PhysicsModel(calibration_folds=0).fit(CAPPED)


def test_a_cap_is_seen_where_runs_reach_the_limit_and_none_is_above():
    queries = queries_of(CAPPED)

    assert AT_CAP.sum() >= 3
    assert caps_seen(queries, CAPPED.power_w) == {"a100_sxm": A100_LIMIT_W}
    assert caps_seen(queries, FREE.power_w) == {}
    assert caps_seen(queries, CAPPED.power_w / 2) == {}


def test_a_board_that_is_flat_at_a_limit_of_its_own_was_capped():
    """A laptop's limit is in no catalogue: 37 % of regret, for its cap was not seen."""
    own_w = 0.7 * A100_LIMIT_W
    capped = np.minimum(FREE.power_w, own_w)
    flat = [np.sum(capped[rows] == own_w) for _, rows in FREE.by_pair()]

    assert np.sum(np.array(flat) >= 3) >= 2
    assert caps_seen(queries_of(FREE), capped) == {"a100_sxm": own_w}


def test_one_application_whose_power_does_not_rise_is_no_cap():
    memory = FREE.power_w.copy()
    first = FREE.of_pair(*FREE.pairs[0])
    memory[first] = memory.max() * 1.01

    assert caps_seen(queries_of(FREE), memory) == {}


def test_power_below_the_cap_is_learned_as_without_it():
    free = PhysicsModel(calibration_folds=0).fit(FREE)

    with_cap, without = (m.predict(queries_of(CAPPED)) for m in (fitted(), free))

    below = without < 0.85 * A100_LIMIT_W
    assert with_cap[below] == pytest.approx(without[below], rel=0.08)


def test_an_answer_is_never_above_the_cap_that_was_seen(tmp_path):
    asked = queries_of(runs(gain=2.5, seed=5))
    fitted().save(tmp_path)

    predicted = load_model(tmp_path).predict(asked)

    assert predicted.max() == pytest.approx(A100_LIMIT_W)


def test_an_anchor_at_the_cap_is_not_taken_for_the_power_that_it_would_draw():
    """Told as exact, 400 W at the default clock would pull down all lower clocks."""
    unseen = runs(gain=2.2, cap_w=A100_LIMIT_W, seed=7)
    hot = unseen.application[np.argmax(unseen.power_w * (unseen.sm_clock_mhz == 1410))]
    asked = unseen.select(unseen.application == hot)
    anchor = asked.select(asked.sm_clock_mhz == 1410)
    unaware = PhysicsModel(calibration_folds=0).fit(CAPPED)
    unaware.caps_w = {}

    errors = [
        np.abs(model.adapt(anchor).predict(queries_of(asked)) / asked.power_w - 1).mean()
        for model in (fitted(), unaware)
    ]

    assert anchor.power_w == A100_LIMIT_W
    assert errors[0] < 0.7 * errors[1]
