import numpy as np
import pytest
from synthetic_traces import STEP_S, law, traces

from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, TraceCoverageError, UnknownNameError
from joulelab.power_models.traces import BASELINE, TRACE_MODELS, load_trace_model
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule, recordings_hash, step_means
from joulelab.power_models.traces.model import leave_one_trace_out
from joulelab.power_models.traces.state_machine import Fluctuation

RECORDINGS = traces(6, num_steps=40, lag_s=0.15, noise=0.01)


@pytest.fixture(scope="module")
def fitted():
    return TRACE_MODELS[BASELINE](calibration_folds=0).fit(RECORDINGS[1:])


@pytest.fixture(scope="module")
def baseline():
    return TRACE_MODELS[BASELINE]().fit(traces(10, noise=0.02))


def constant(phase="decode", *, num_steps=30, tensor=0.1, dram=0.4):
    return Schedule(
        step_s=STEP_S,
        phase=np.full(num_steps, phase),
        inputs={
            "tensor_active": np.full(num_steps, tensor),
            "dram_active": np.full(num_steps, dram),
        },
    )


def test_a_recording_that_was_not_shown_is_predicted(fitted):
    unseen = RECORDINGS[0]

    energy_j = fitted.predict(unseen.schedule).sum() * STEP_S

    assert energy_j == pytest.approx(unseen.energy_j, rel=0.02)


def test_a_saved_model_answers_alike(fitted, tmp_path):
    fitted.save(tmp_path)

    again = load_trace_model(tmp_path)

    schedule = RECORDINGS[0].schedule
    assert type(again) is type(fitted)
    assert again.predict(schedule).tolist() == fitted.predict(schedule).tolist()
    assert again.sample(schedule).tolist() == fitted.sample(schedule).tolist()


def test_what_comes_later_changes_nothing_before(fitted):
    whole = traces(1, num_steps=90, seed=3)[0].schedule

    part = fitted.predict(whole.part(0, 50))

    assert part == pytest.approx(fitted.predict(whole)[:50], rel=1e-5)


def test_a_schedule_longer_than_any_that_was_shown_is_answered(fitted):
    long = traces(1, num_steps=600, seed=4)[0]

    power_w = fitted.predict(long.schedule)

    assert power_w.sum() * STEP_S == pytest.approx(
        law(long.schedule.inputs["tensor_active"], long.schedule.inputs["dram_active"]).sum()
        * STEP_S,
        rel=0.05,
    )


def test_power_follows_the_law_exactly_where_there_is_no_noise():
    model = TRACE_MODELS[BASELINE](calibration_folds=0).fit(traces(8))

    assert model.predict(constant(tensor=0.15, dram=0.5)) == pytest.approx(law(0.15, 0.5), rel=1e-3)


def test_the_lag_is_found():
    model = TRACE_MODELS[BASELINE](calibration_folds=0).fit(traces(8, lag_s=0.3))

    assert model._levels.lag_s == 0.3


def test_intervals_cover_recordings_as_often_as_stated(baseline):
    fresh = traces(60, noise=0.02, seed=9)

    covered = []
    for trace in fresh:
        found = baseline.predict_energy(trace.schedule, level=0.8)
        covered.append(found.lower_j <= trace.energy_j <= found.upper_j)

    assert np.mean(covered) >= 0.65


def test_a_load_outside_of_training_widens_the_interval_and_is_told(baseline):
    inside = baseline.predict_energy(constant(), level=0.8)
    beyond = baseline.predict_energy(constant(tensor=0.95, dram=0.95), level=0.8)
    unknown = baseline.predict_energy(constant("training"), level=0.8)

    widths = [np.log(each.upper_j / each.lower_j) for each in (inside, beyond, unknown)]
    assert inside.outside == ()
    assert "active is 0.95; trained on 0 to 0." in beyond.outside[0]
    assert unknown.outside == ("Phase 'training' was not trained on.",)
    assert widths[1] > 1.05 * widths[0]
    assert widths[2] == pytest.approx(2 * widths[0])


def test_power_keeps_to_a_limit_that_is_known():
    model = TRACE_MODELS[BASELINE](calibration_folds=0, power_limit_w=400.0).fit(traces(4))

    power_w = model.predict(traces(1, seed=2)[0].schedule)

    assert power_w.max() == 400.0
    assert power_w.min() == pytest.approx(100.0, rel=0.01)


def test_recordings_held_out_for_the_interval_keep_to_the_limit_too():
    """Energies of recordings at the limit were off by what the limit takes away."""
    recordings = [
        LoadTrace(name=t.name, schedule=t.schedule, power_w=np.minimum(t.power_w, 300.0))
        for t in traces(10)
    ]
    unlimited, limited = (
        TRACE_MODELS[BASELINE](power_limit_w=limit_w).fit(recordings) for limit_w in (None, 300.0)
    )

    wide, narrow = (m.predict_energy(recordings[0].schedule) for m in (unlimited, limited))

    assert narrow.upper_j / narrow.lower_j <= wide.upper_j / wide.lower_j


def test_a_model_knows_what_it_was_trained_on(baseline, tmp_path):
    recordings = traces(10, noise=0.02)
    baseline.save(tmp_path)

    assert load_trace_model(tmp_path).data_hash == baseline.data_hash
    assert baseline.data_hash == recordings_hash(recordings[::-1])
    assert baseline.data_hash != recordings_hash(recordings[1:])


def test_a_damaged_model_is_told(fitted, tmp_path):
    fitted.save(tmp_path)
    arrays = tmp_path / "arrays.npz"
    arrays.write_bytes(arrays.read_bytes()[:-20])

    with pytest.raises(ConfigError, match=r"arrays\.npz is not as it was written"):
        load_trace_model(tmp_path)


def test_a_load_outside_of_training_is_refused_where_that_is_asked():
    model = TRACE_MODELS[BASELINE](calibration_folds=0, outside="refuse").fit(traces(4))

    with pytest.raises(ConfigError, match="Phase 'training' was not trained on"):
        model.predict(constant("training"))


def test_a_sample_scatters_as_the_recordings_do(baseline):
    schedule = constant(num_steps=2000)

    residual = np.log(baseline.sample(schedule, seed=1) / baseline.predict(schedule))

    assert residual.std() == pytest.approx(0.02, rel=0.15)
    assert abs(residual.mean()) < 0.003


def test_the_memory_of_scatter_is_found():
    random = np.random.default_rng(0)
    known = Fluctuation(persistence=0.7, sd=np.array([0.1, 0.1]))
    phases = np.zeros(5000, dtype=np.intp)

    found = Fluctuation.of([known.sample(phases, random)], [phases], 1)

    assert found.persistence == pytest.approx(0.7, abs=0.03)
    assert found.sd[0] == pytest.approx(0.1, rel=0.1)


def test_few_recordings_give_no_interval():
    model = TRACE_MODELS[BASELINE]().fit(traces(4))

    with pytest.raises(ConfigError, match=r"needs 9 recordings .* got 4: ask for --level 0\.8"):
        model.predict_energy(constant(), level=0.9)


def test_intervals_of_short_schedules_cover_what_was_promised():
    """Those of whole recordings were told, which scatter cancels in: half of 2-s plans missed."""
    model = TRACE_MODELS[BASELINE]().fit(traces(12, num_steps=200, noise=0.03))
    unseen = traces(40, num_steps=200, noise=0.03, seed=1)

    for num_steps in (1, 10, 50, 200):
        covered = []
        for trace in unseen:
            forecast = model.predict_energy(trace.schedule.part(0, num_steps), level=0.8)
            energy_j = trace.power_w[:num_steps].sum() * STEP_S
            covered.append(forecast.lower_j <= energy_j <= forecast.upper_j)
        assert np.mean(covered) >= 0.7


def test_a_saved_model_has_the_same_intervals(baseline, tmp_path):
    baseline.save(tmp_path)

    again = load_trace_model(tmp_path)

    for num_steps in (1, 5, 30, 100):
        asked = constant(num_steps=num_steps)
        assert again.predict_energy(asked, 0.8) == baseline.predict_energy(asked, 0.8)


def test_parts_of_one_recording_are_held_out_together():
    first, second = traces(2, num_steps=40)
    parts = [
        LoadTrace(name="one", schedule=first.schedule.part(a, b), power_w=first.power_w[a:b])
        for a, b in ((0, 20), (20, 40))
    ]

    scores = leave_one_trace_out(
        lambda: TRACE_MODELS[BASELINE](calibration_folds=0), [*parts, second]
    )

    assert set(scores.energy_error) == {"one", second.name}


def test_step_means_are_exact_for_a_ramp():
    ramp = PowerTrace(np.array([0.0, 1.0]), np.array([0.0, 100.0]))

    assert step_means(ramp, 0.0, 4, 0.25) == pytest.approx([12.5, 37.5, 62.5, 87.5])
    with pytest.raises(TraceCoverageError):
        step_means(ramp, 0.5, 4, 0.25)


def test_the_last_step_may_end_with_the_last_sample():
    """39 times 0.1 s is more than 3.9 s by a rounding, which was taken for a missing sample."""
    t_s = np.array([float(f"{number * 0.1:.1f}") for number in range(40)])

    means = step_means(PowerTrace(t_s, np.full(40, 100.0)), 0.0, 39, 0.1)

    assert means == pytest.approx(np.full(39, 100.0))


def test_a_model_must_be_fitted_first():
    with pytest.raises(ConfigError, match="must be fitted first"):
        TRACE_MODELS[BASELINE]().predict(constant())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("state_machine", "Unknown trace model 'state_machine'. Did you mean"),
        ("transformer", "'transformer' was removed: it lost to 'state_machine_ar1'"),
    ],
)
def test_an_unknown_or_removed_model_is_named(name, told):
    with pytest.raises(UnknownNameError, match=told):
        TRACE_MODELS[name]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"step_s": 0.2}, r"0\.1 s long as in training, got 0\.2"),
        ({"inputs": {"sm_active": np.full(30, 0.5)}}, "Inputs must be"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_refused(baseline, change, told):
    whole = constant()
    parts = {"step_s": whole.step_s, "phase": whole.phase, "inputs": whole.inputs, **change}

    with pytest.raises(ConfigError, match=told):
        baseline.predict(Schedule(**parts))


def test_percent_in_place_of_a_share_is_refused_with_its_step():
    with pytest.raises(ConfigError, match="'tensor_active' must be a share from 0 to 1, step 0"):
        constant(tensor=90.0)


def test_zero_power_is_refused_with_its_step():
    with pytest.raises(ConfigError, match="step 3 has 0"):
        LoadTrace(
            name="broken",
            schedule=constant(),
            power_w=np.where(np.arange(30) == 3, 0.0, 100.0),
        )


def test_recordings_must_be_alike():
    other = LoadTrace(
        name="slow",
        schedule=Schedule(step_s=1.0, phase=np.full(3, "idle"), inputs={}),
        power_w=np.full(3, 90.0),
    )

    with pytest.raises(ConfigError, match="steps of one length, 'slow' has 1 s"):
        TRACE_MODELS[BASELINE]().fit([*traces(2), other])
