"""What ties the GPUs of a study together."""

from dataclasses import replace

import pytest
from actor_fixtures import CLOCKS_MHZ, STUDY, gemm, trial
from synthetic_results import measurement

from joulelab.core.measurement import Finding
from joulelab.core.plan import plan_sweep
from joulelab.study.resume import rest_of
from joulelab.study.trials import ties

PRODUCT = "Invented GPU"


@pytest.fixture
def measured():
    return measurement(phase="gemm")


def planned(num, *, repeats=1):
    """Return a plan of clocks with a sentinel before every two of them."""
    clocks = [gemm(clock) for clock in CLOCKS_MHZ[:num]]
    return plan_sweep(STUDY, clocks, repeats=repeats, sentinel=gemm(), sentinel_every=2)


def tied(plan, known, uuids):
    return ties(plan, rest_of(plan, known), known, dict.fromkeys(uuids, PRODUCT))


def test_every_gpu_of_a_study_has_a_sentinel_to_begin_with():
    added, untied = tied(planned(4), [], ["a", "b", "c"])

    [sentinel] = added
    assert untied == {"a", "b", "c"}
    assert sentinel.sentinel
    assert sentinel.configuration == gemm()
    assert sentinel.name not in {trial.name for trial in planned(4)}


def test_a_study_that_goes_on_on_another_gpu_gets_it_a_sentinel_of_its_own(measured):
    plan = planned(1)
    done = replace(measured, trial=plan[0].name, configuration=gemm(), sentinel=True, study=STUDY)

    added, untied = tied(plan, [done], [done.device.uuid, "other"])

    assert untied == {"other"}
    assert [trial.repeat for trial in added] == [1]
    again, _ = tied(plan, [done, replace(done, trial=added[0].name, repeat=1)], ["third"])
    assert [trial.repeat for trial in again] == [2]


def test_a_sentinel_that_failed_compares_nothing(measured):
    plan = planned(2)
    finding = Finding(reason="actor_died", detail="It died.")
    died = replace(measured, windows=(), findings=(finding,), sentinel=True, trial=plan[0].name)

    _, untied = tied(plan, [died], [died.device.uuid])

    assert untied == {died.device.uuid}


def test_no_sentinel_is_added_where_none_is_planned_or_nothing_is_left(measured):
    plan = planned(1)
    done = [replace(measured, trial=t.name, configuration=t.configuration) for t in plan]

    assert tied([trial()], [], ["a", "b"]) == ([], frozenset())
    assert tied(plan, done, ["a", "b"]) == ([], frozenset())


def test_no_more_sentinels_are_added_than_there_is_left_to_do():
    added, _ = tied(planned(1), [], [f"gpu-{i}" for i in range(8)])

    assert len(added) == 1


def test_gpus_of_several_products_begin_with_a_sentinel_of_their_own_plan():
    plans = [
        replace(trial, device_name=name).beside_others()
        for name in ("NVIDIA H200", "NVIDIA A40")
        for trial in planned(4)
    ]
    products = {"a": "NVIDIA H200", "b": "NVIDIA A40", "c": "NVIDIA A40", "d": "NVIDIA A40"}

    added, untied = ties(plans, plans, [], products)

    assert untied == products.keys()
    assert [trial.device_name for trial in added] == ["NVIDIA A40"]
    assert added[0].name.startswith("a40-sentinel-default")
    assert added[0].name not in {trial.name for trial in plans}
