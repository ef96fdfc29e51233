"""Laws with a hierarchy of parameters, against their closed forms."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from synthetic_runs import CLOCKS_MHZ, rows_by_law, runs_by_law

from joulelab.power_models import POWER_MODELS
from joulelab.power_models.members.hierarchy import (
    Rows,
    doubt_of_unmeasured,
    expected,
    extended,
    learned,
    prior,
    updated,
    without_pairs,
)
from joulelab.power_models.members.meta import LinearPowerLaw, LinearTimeLaw
from joulelab.power_models.members.physical_terms import PowerLaw, TimeLaw
from joulelab.power_models.queries import profile_of, queries_of, sweep
from joulelab.power_models.readers import runs_of_rows

TYPICAL = np.array([0.15, 0.4, 0.0, 0.8, 0.9, 1.0])
RUNS = runs_by_law(8, noise=0.01)
QUERIES = queries_of(RUNS)
LAWS = [PowerLaw, TimeLaw, LinearPowerLaw, LinearTimeLaw]
A100_LIMIT_W = 400.0


def rows_of(law, queries):
    pairs = tuple(profile.pair for profile in queries.profiles)
    return Rows(terms=law.terms(queries, TYPICAL), pairs=pairs, pair=queries.profile)


@functools.cache
def fitted(name, target="power_w"):
    return POWER_MODELS[name](target, calibration_folds=0).fit(RUNS)


@pytest.mark.parametrize("kind", LAWS)
def test_derivatives_are_those_of_the_law(kind):
    law = kind()
    terms = law.terms(QUERIES, TYPICAL)
    logs = terms.offset + np.random.default_rng(0).normal(0.0, 0.2, terms.offset.shape)

    _, slopes = law.combined(logs, terms)

    for term in range(logs.shape[1]):
        step = np.zeros_like(logs)
        step[:, term] = 1e-6
        above, below = (law.combined(logs + sign * step, terms)[0] for sign in (1, -1))
        assert slopes[:, term] == pytest.approx((above - below) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("kind", [TimeLaw, LinearTimeLaw])
def test_time_at_the_clock_of_the_profile_is_that_of_the_profile_whatever_the_parameters(kind):
    law = kind()
    terms = law.terms(QUERIES, TYPICAL)
    logs = terms.offset
    if kind is TimeLaw:
        logs = logs + np.random.default_rng(0).normal(0.0, 1.0, logs.shape)

    value, _ = law.combined(logs, terms)

    assert value[QUERIES.clock_ratio == 1.0] == pytest.approx(0.0, abs=1e-12)


def test_power_without_parameters_is_what_the_catalogue_expects():
    """At the ridge clock, without activity: constant power and clock tree, and what is lost."""
    profile = replace(
        profile_of(RUNS, "a100_sxm", "app00"),
        activity=dict.fromkeys(("fp_active", "dram_active", "tensor_active", "sm_active"), 0.0),
    )
    law, spec = PowerLaw(), profile.spec
    queries = sweep(profile, [spec.voltage.ridge_mhz])
    terms = law.terms(queries, TYPICAL)

    value, _ = law.combined(terms.offset, terms)

    tree_w = 0.2 * spec.power.sm_w_per_ghz * spec.voltage.ridge_mhz / 1e3
    chip = (spec.power.constant_w + tree_w) / A100_LIMIT_W
    assert np.exp(value[0]) == pytest.approx(chip * (1.0 + 0.15 / 0.85**2 * chip), rel=0.02)


@pytest.mark.parametrize(("kind", "terms"), [(PowerLaw, [2, 3, 4]), (TimeLaw, [0, 1])])
def test_applications_without_counters_share_a_parameter_of_what_runs_on_the_device(kind, terms):
    counters = ("fp_active", "dram_active", "tensor_active", "sm_active")
    rows = [
        {name: value for name, value in row.items() if name not in counters}
        for row in rows_by_law(2)
    ]

    uncounted = kind().terms(queries_of(runs_of_rows(rows)), TYPICAL).shared[:, :, -1]

    expected_columns = np.isin(np.arange(uncounted.shape[1]), terms)
    assert (uncounted == expected_columns).all()
    assert (kind().terms(QUERIES, TYPICAL).shared[:, :, -1] == 0.0).all()


def test_at_the_limit_fifteen_percent_are_lost():
    law, terms = PowerLaw(), PowerLaw().terms(QUERIES, TYPICAL)
    logs = np.full((len(QUERIES), 8), -50.0)
    logs[:, 0], logs[:, 7] = np.log(0.85), terms.offset[:, 7]

    value, _ = law.combined(logs, terms)

    assert np.exp(value) == pytest.approx(1.0)


def test_a_linear_law_is_updated_as_the_normal_equations_say():
    law = LinearPowerLaw()
    rows = rows_of(law, QUERIES)
    logs = np.log(RUNS.power_w / A100_LIMIT_W)
    known = extended(law, prior(law), rows.pairs)

    found = updated(law, prior(law), rows, logs)

    columns = np.zeros((len(logs), len(known.mean)))
    own = len(law.application_sd)
    for row, pair in enumerate(rows.pair):
        shared = rows.terms.shared[row, 0]
        columns[row, : 2 * len(shared)] = np.tile(shared, 2)
        start = 2 * len(shared) + own * pair
        columns[row, start : start + own] = rows.terms.application[row, 0]
    left = logs - rows.terms.offset[:, 0]
    precision = np.linalg.inv(known.covariance) + columns.T @ columns / known.noise**2
    assert found.mean == pytest.approx(
        np.linalg.solve(precision, columns.T @ left / known.noise**2), abs=1e-5
    )
    assert found.covariance == pytest.approx(np.linalg.inv(precision), abs=1e-6)


def test_new_names_start_at_their_prior_and_leave_the_others_as_they_were():
    law = PowerLaw()
    first = updated(law, prior(law), rows_of(law, QUERIES), np.log(RUNS.power_w / A100_LIMIT_W))

    wider = extended(law, first, [("h100_sxm", "new")])

    back = without_pairs(law, wider, [("h100_sxm", "new")])
    shared_and_gpu = len(law.shared_sd) + len(law.gpu_sd)
    assert wider.gpus == ("a100_sxm", "h100_sxm")
    assert wider.pairs == (*first.pairs, ("h100_sxm", "new"))
    assert back.mean[:shared_and_gpu] == pytest.approx(first.mean[:shared_and_gpu])
    assert back.mean[shared_and_gpu + len(law.gpu_sd) :] == pytest.approx(
        first.mean[shared_and_gpu:]
    )
    assert np.diag(wider.covariance)[-3:] == pytest.approx(law.application_sd**2)


def test_the_scatter_of_applications_is_learned():
    """Applications whose power differs by e^{+-0.5} beyond their profile scatter by about 0.5."""
    law = LinearPowerLaw()
    queries = queries_of(runs_by_law(40, clocks_mhz=(510, 960, 1410)))
    rows = rows_of(law, queries)
    signs = np.where(np.random.default_rng(1).random(40) < 0.5, -1.0, 1.0)
    logs = rows.terms.offset[:, 0] + 0.5 * signs[rows.pair]

    found = learned(law, rows, logs)

    assert np.sqrt(found.application_scatter[0, 0]) == pytest.approx(0.5, rel=0.2)


def test_an_anchor_tells_its_application_and_hardly_the_others():
    law = PowerLaw()
    known = learned(law, rows_of(law, QUERIES), np.log(RUNS.power_w / A100_LIMIT_W))
    asked = queries_of(runs_by_law(2, seed=7))
    rows = rows_of(law, asked)
    named = replace(rows, pairs=(("a100_sxm", "first"), ("a100_sxm", "second")))
    before = expected(law, known, named)
    at = np.flatnonzero((asked.profile == 0) & (asked.clock_ratio == 1.0))
    one = Rows(
        terms=law.terms(asked.select(at), TYPICAL),
        pairs=(("a100_sxm", "first"),),
        pair=np.zeros(1, dtype=np.intp),
    )

    told = updated(law, known, one, before[at] + 0.3)

    moved = expected(law, told, named) - before
    assert moved[at] == pytest.approx(0.3, abs=0.05)
    assert np.abs(moved[asked.profile == 1]).max() < 0.1
    assert 0.0 < moved[asked.profile == 0][0] < moved[at][0]


def test_a_gpu_never_seen_is_in_more_doubt_than_one_that_was():
    law = PowerLaw()
    known = learned(law, rows_of(law, QUERIES), np.log(RUNS.power_w / A100_LIMIT_W))
    rows = rows_of(law, QUERIES)
    elsewhere = replace(rows, pairs=tuple(("other", name) for _, name in rows.pairs))

    seen, unseen = (doubt_of_unmeasured(law, known, each) for each in (rows, elsewhere))

    assert (unseen > seen).all()


@pytest.mark.parametrize("kind", LAWS)
def test_what_is_expected_of_known_names_is_what_their_parameters_say(kind):
    law = kind()
    rows = rows_of(law, QUERIES)
    known = updated(law, prior(law), rows, np.log(RUNS.power_w / A100_LIMIT_W))
    shared, gpu, own = (len(sd) for sd in (law.shared_sd, law.gpu_sd, law.application_sd))
    logs = rows.terms.offset + rows.terms.shared @ known.mean[:shared]
    logs = logs + rows.terms.gpu @ known.mean[shared : shared + gpu]
    for row, pair in enumerate(rows.pair):
        start = shared + gpu + own * pair
        logs[row] += rows.terms.application[row] @ known.mean[start : start + own]

    value = expected(law, known, rows)

    assert value == pytest.approx(law.combined(logs, rows.terms)[0])


@pytest.mark.parametrize("name", ["bayesian", "meta"])
def test_applications_measured_on_a_new_gpu_place_the_others_there(name):
    """The new GPU draws 1.4 times what the law says of the one trained on."""
    rows = [
        row | {"power_w": 1.4 * row["power_w"], "gpu": "a100_pcie"}
        for row in rows_by_law(7, seed=3, clocks_mhz=CLOCKS_MHZ[::2])
    ]
    there = runs_of_rows(rows)
    few = np.isin(there.application, [f"app{number:02d}" for number in range(5)])
    asked, model = there.select(~few), fitted(name)

    adapted = model.adapt(there.select(few))

    before, after = (
        np.abs(each.predict(queries_of(asked)) / asked.power_w - 1).mean()
        for each in (model, adapted)
    )
    assert after < 0.6 * before


@pytest.mark.parametrize("name", ["bayesian", "meta"])
@pytest.mark.parametrize("target", ["power_w", "time_s"])
def test_the_law_that_made_the_runs_is_learned(name, target):
    asked = runs_by_law(4, seed=11)

    predicted = fitted(name, target).predict(queries_of(asked))

    truth = asked.power_w if target == "power_w" else asked.time_s
    assert np.abs(predicted / truth - 1).mean() < 0.08
