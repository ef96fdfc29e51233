"""What runs at a power cap say, and what they do not."""

import functools

import numpy as np
import pytest
from synthetic_runs import rows_by_law

from joulelab.power_models import POWER_MODELS
from joulelab.power_models.artifacts import load_model
from joulelab.power_models.members.power_cap import capped, caps_seen, clamped
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows

A100_LIMIT_W = 400.0
aware = pytest.mark.parametrize("name", ["bayesian", "meta", "physics"])


def runs(*, gain=1.7, cap_w=np.inf, **kinds):
    rows = rows_by_law(8, **kinds)
    return runs_of_rows(
        [row | {"power_w": min(gain * float(row["power_w"]), cap_w)} for row in rows]
    )


FREE, CAPPED = runs(), runs(cap_w=A100_LIMIT_W)
AT_CAP = FREE.power_w > A100_LIMIT_W


@functools.cache
def fitted(name):
    return POWER_MODELS[name](calibration_folds=0).fit(CAPPED)


def test_a_cap_is_seen_where_runs_reach_the_limit_and_none_is_above():
    queries = queries_of(CAPPED)

    assert AT_CAP.sum() >= 3
    assert caps_seen(queries, CAPPED.power_w) == {"a100_sxm": A100_LIMIT_W}
    assert caps_seen(queries, FREE.power_w) == {}
    assert caps_seen(queries, CAPPED.power_w / 2) == {}


def test_only_values_at_the_cap_are_capped():
    queries, caps_w = queries_of(CAPPED), {"a100_sxm": A100_LIMIT_W}

    assert (capped(queries, CAPPED.power_w, caps_w) == (CAPPED.power_w >= 388.0)).all()
    assert not capped(queries, FREE.power_w, {}).any()
    assert clamped(queries, FREE.power_w, caps_w) == pytest.approx(CAPPED.power_w)


@aware
def test_power_below_the_cap_is_learned_as_without_it(name):
    free = POWER_MODELS[name](calibration_folds=0).fit(FREE)

    with_cap, without = (m.predict(queries_of(CAPPED)) for m in (fitted(name), free))

    below = without < 0.85 * A100_LIMIT_W
    assert with_cap[below] == pytest.approx(without[below], rel=0.08)


@aware
def test_an_answer_is_never_above_the_cap_that_was_seen(name, tmp_path):
    asked = queries_of(runs(gain=2.5, seed=5))
    fitted(name).save(tmp_path)

    predicted = load_model(tmp_path).predict(asked)

    assert predicted.max() == pytest.approx(A100_LIMIT_W)


@aware
def test_an_anchor_at_the_cap_is_not_taken_for_the_power_that_it_would_draw(name):
    """Told as exact, 400 W at the default clock would pull down all lower clocks."""
    unseen = runs(gain=2.2, cap_w=A100_LIMIT_W, seed=7)
    hot = unseen.application[np.argmax(unseen.power_w * (unseen.sm_clock_mhz == 1410))]
    asked = unseen.select(unseen.application == hot)
    anchor = asked.select(asked.sm_clock_mhz == 1410)
    unaware = POWER_MODELS[name](calibration_folds=0).fit(CAPPED)
    unaware.caps_w = {}

    errors = [
        np.abs(model.adapt(anchor).predict(queries_of(asked)) / asked.power_w - 1).mean()
        for model in (fitted(name), unaware)
    ]

    assert anchor.power_w == A100_LIMIT_W
    assert errors[0] < 0.7 * errors[1]
