"""What every registered power model keeps to."""

import functools

import pytest
from synthetic_runs import rows_by_law, runs_by_law

from joulelab.errors import ConfigError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import load_model
from joulelab.power_models.queries import profile_of, queries_of, sweep
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.state import State, read_state, write_state
from joulelab.testing import PowerModelContract

RUNS = runs_by_law(12, noise=0.01)
UNSEEN = runs_by_law(2, noise=0.01, seed=7)
TARGETS = ("power_w", "time_s")
OPTIONAL = {
    *("shared.calibration.group", "shared.calibration.anchored_error"),
    *("member.moved.a100_sxm", "member.weights.a100_sxm", "member.time_gpus"),
}
"""A whole model may lack a calibration, and physics what is peculiar to a GPU."""
every_model = pytest.mark.parametrize("name", POWER_MODELS)
both_targets = pytest.mark.parametrize("target", TARGETS)


@functools.cache
def fitted(name, target):
    return POWER_MODELS[name](target).fit(RUNS)


@functools.cache
def uncalibrated(name, target):
    return POWER_MODELS[name](target, seed=3, calibration_folds=0).fit(RUNS)


def unmeasured_points_changed(rows):
    """Return the rows with every activity changed but at the default clock."""
    return [
        row if row["sm_clock_mhz"] == 1410 else row | {"fp_active": 0.99, "sm_active": 0.01}
        for row in rows
    ]


@every_model
@both_targets
def test_it_keeps_to_what_models_of_plug_ins_must(name, target):
    contract, model = PowerModelContract(), fitted(name, target)

    contract.test_predictions_are_positive_and_one_per_query(model)
    contract.test_each_query_is_answered_by_itself(model)


@every_model
@both_targets
def test_the_same_seed_learns_the_same_whatever_was_read_at_other_clocks_than_the_default(
    name, target
):
    rows, asked = rows_by_law(12, noise=0.01), rows_by_law(2, seed=7)
    blind = POWER_MODELS[name](target, seed=3, calibration_folds=0)
    blind.fit(runs_of_rows(unmeasured_points_changed(rows)))

    answered = blind.predict(queries_of(runs_of_rows(unmeasured_points_changed(asked))))

    expected = uncalibrated(name, target).predict(queries_of(runs_of_rows(asked)))
    assert answered == pytest.approx(expected, rel=1e-9)


@every_model
@both_targets
def test_a_saved_model_predicts_the_same_and_holds_no_pickle(name, target, tmp_path):
    model = fitted(name, target).adapt(UNSEEN.select(UNSEEN.sm_clock_mhz == 1410))

    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")

    queries = queries_of(UNSEEN)
    assert loaded.predict(queries) == pytest.approx(model.predict(queries), rel=1e-6)
    assert loaded.predict_interval(queries).upper == pytest.approx(
        model.predict_interval(queries).upper, rel=1e-6
    )
    assert loaded.data_hash == model.data_hash
    names = [path.name for path in (tmp_path / "model").rglob("*")]
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib", ".pt"))]


@every_model
@both_targets
def test_an_interval_holds_the_prediction_and_widens_with_its_level(name, target):
    model, queries = fitted(name, target), queries_of(UNSEEN)

    narrow, wide = (model.predict_interval(queries, level) for level in (0.5, 0.9))

    predicted = model.predict(queries)
    assert (wide.lower <= narrow.lower).all()
    assert (narrow.lower <= predicted).all()
    assert (predicted <= narrow.upper).all()
    assert (narrow.upper <= wide.upper).all()
    assert (wide.upper > wide.lower).any()


@every_model
@both_targets
def test_adapting_gives_a_new_model_that_meets_the_anchor(name, target):
    model, queries = fitted(name, target), queries_of(UNSEEN)
    before = model.predict(queries)
    anchors = UNSEEN.select(UNSEEN.sm_clock_mhz == 1410)

    adapted = model.adapt(anchors)

    assert adapted is not model
    assert model.predict(queries) == pytest.approx(before)
    truth = anchors.power_w if target == "power_w" else anchors.time_s
    assert adapted.predict(queries_of(anchors)) == pytest.approx(truth, rel=1e-3)


@every_model
def test_a_model_asked_before_it_learned_says_so(name):
    with pytest.raises(ConfigError, match="must be fitted first"):
        POWER_MODELS[name]().predict(queries_of(UNSEEN))


@every_model
def test_one_application_is_not_enough_to_learn_from(name):
    with pytest.raises(ConfigError, match="Column 'application' must hold at least 2"):
        POWER_MODELS[name]().fit(runs_by_law(1))


@every_model
def test_a_power_limit_is_kept_to(name):
    rows = [row | {"power_limit_w": 150.0} for row in rows_by_law(1, seed=7)]
    asked = sweep(profile_of(runs_of_rows(rows), "a100_sxm", "app00"))

    predicted = fitted(name, "power_w").predict(asked)

    assert predicted.max() <= 150.0


@every_model
def test_a_damaged_model_is_told_whatever_is_missing(name, tmp_path):
    fitted(name, "power_w").save(tmp_path / "whole")
    files = sorted(path for path in (tmp_path / "whole").rglob("*") if path.is_file())

    for path in files:
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], b"something else " * 9, None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(ConfigError, match="is required, got"):
                load_model(tmp_path / "whole")
        path.write_bytes(content)
    load_model(tmp_path / "whole")


@every_model
def test_a_model_of_another_version_is_told_by_what_it_lacks(name, tmp_path):
    fitted(name, "power_w").save(tmp_path)
    kept = read_state(tmp_path)

    for lacking in (*kept.values, *kept.arrays):
        if lacking in OPTIONAL:
            continue
        values, arrays = (
            {k: v for k, v in part.items() if k != lacking} for part in (kept.values, kept.arrays)
        )
        write_state(tmp_path, State(values=values, arrays=arrays))
        with pytest.raises(ConfigError):
            load_model(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"name": "mean"}', "not JSON"])
def test_a_foreign_file_is_no_model(text, tmp_path):
    fitted("mean", "power_w").save(tmp_path)
    (tmp_path / "model.json").write_text(text)

    with pytest.raises(ConfigError):
        load_model(tmp_path)
