"""A results folder holds studies of one kind."""

from dataclasses import replace

import pytest

import joulelab
from joulelab.errors import ConfigError
from joulelab.study.kind import check_kind, known_kind
from joulelab.tracking.store import ResultStore

BUDGET = joulelab.Budget(num_trials=4)
SPACE = {"sm_clock_mhz": [1200, 810]}


@pytest.fixture
def swept(make_lab):
    return joulelab.sweep("gemm", clocks_mhz=(810,), repeats=1, lab=make_lab(study="s8"))


def store_of_before(folder):
    """A folder whose header names no kind."""
    store = ResultStore(folder)
    store.write_study(replace(store.read_study(), kind=None, workloads=()))
    return store


def test_a_search_in_the_folder_of_a_sweep_is_refused(make_lab, swept):
    """It ended in a ValueError about the name of a trial."""
    with pytest.raises(ConfigError, match=r"A search needs .* holds a sweep; give another name"):
        joulelab.search("gemm", SPACE, budget=BUDGET, lab=make_lab(study="s8"))

    assert ResultStore(swept.folder).read_study().kind == "sweep"
    assert not (swept.folder / "asked_search.json").exists()


def test_a_sweep_in_the_folder_of_a_search_is_refused(make_lab):
    """It wrote into it silently, after which the search could not go on."""
    lab = make_lab(study="s8")
    found = joulelab.search("gemm", SPACE, budget=BUDGET, lab=lab)
    before = found.measurements

    for ask in (joulelab.sweep, joulelab.measure):
        with pytest.raises(ConfigError, match=r"holds a search; give another name with --study"):
            ask("gemm", lab=lab)

    assert found.measurements == before
    assert known_kind(store_of_before(found.folder)) == "search"


def test_a_study_of_before_goes_on_although_its_header_names_no_kind(make_lab, swept):
    store = store_of_before(swept.folder)

    again = joulelab.sweep("gemm", clocks_mhz=(810,), repeats=1, lab=make_lab(study="s8"))

    assert again.summary.num_skipped == again.summary.num_trials
    assert store.read_study().kind == "sweep"
    assert store.read_study().workloads == ("gemm",)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ((("only", ""), ("again", False)), "matrix"),
        ((("recipe", "all"),), "baseline"),
        ((("objective", "edp"),), "sweep"),
        ((("repeats", 3),), None),
    ],
)
def test_the_kind_of_a_study_of_before_is_known_by_its_settings(swept, settings, kind):
    store = store_of_before(swept.folder)
    store.write_study(replace(store.read_study(), settings=settings))

    assert known_kind(store) == kind


def test_a_study_of_knobs_is_told_from_one_of_others(swept):
    store = ResultStore(swept.folder)
    store.write_study(replace(store.read_study(), kind="study of formats"))

    check_kind(store, "study of formats")
    check_kind(store, None)
    with pytest.raises(ConfigError, match=r"A study of batches needs .* a study of formats"):
        check_kind(store, "study of batches")
