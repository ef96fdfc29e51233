"""What is left to do of a study, and whether it can be done."""

import os
from dataclasses import replace

import pytest
from actor_fixtures import CLOCKS_MHZ, QUICK, STUDY, gemm, simulated_gpus, trial, trials

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Finding
from joulelab.core.plan import plan_sweep
from joulelab.devices import DEVICES
from joulelab.devices.simulated import fleet
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.study.resume import check_feasible, rest_of, ties
from joulelab.study.worker import WorkerSettings
from joulelab_actors.gpu_actor import GpuActor
from joulelab_actors.placement import Site


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    [address] = simulated_gpus(folder)
    settings = WorkerSettings(results_dir=folder / "results", procedure=QUICK, observe_only=True)
    actor = GpuActor(address, settings)
    report = actor.measure(trial(), os.getpid())
    actor.close()
    return report.records[0].measurement


def site_of(address):
    device = DEVICES["simulated"].open(address)
    return Site(
        address=address,
        identity=device.identity(),
        capabilities=device.capabilities(),
        node_id="0" * 56,
        hostname="node-1",
    )


@pytest.fixture
def sites(tmp_path):
    return [site_of(address) for address in simulated_gpus(tmp_path)]


def test_a_trial_with_a_valid_measurement_is_not_done_again(measured):
    assert rest_of([trial(), trial(990)], [measured]) == [trial(990)]


def test_a_trial_with_an_invalid_measurement_is_done_again_as_the_next_attempt(measured):
    finding = Finding(reason="actor_died", detail="It died.")
    died = replace(measured, windows=(), findings=(finding,), attempt=2)

    assert rest_of([trial()], [died]) == [trial(attempt=3)]


def test_a_clock_above_the_power_cap_is_not_measured_again(measured):
    finding = Finding(reason="power_capped", detail="The power cap held it down.")
    capped = replace(measured, findings=(finding,))
    hot = replace(measured, findings=(finding, Finding(reason="throttled", detail="Heat did.")))

    assert rest_of([trial()], [capped]) == []
    assert rest_of([trial()], [hot]) == [trial(attempt=1)]


def test_a_trial_of_which_a_phase_is_missing_is_done_again(measured):
    asked = replace(trial(), configuration=Configuration.of("llama"))
    prefill, decode = (
        replace(measured, configuration=asked.configuration, phase=phase)
        for phase in ("prefill", "decode")
    )

    assert rest_of([asked], [prefill]) == [replace(asked, attempt=1)]
    assert rest_of([asked], [prefill, decode]) == []


def test_a_trial_whose_configuration_changed_is_done_again(measured):
    changed = replace(trial(), configuration=gemm(n=512))

    assert [t.name for t in rest_of([changed], [measured])] == [changed.name]


def test_what_can_be_done_is_not_refused(sites):
    check_feasible(trials(), sites, observe_only=False)


def test_a_clock_off_the_grid_is_refused_before_anything_starts(sites):
    with pytest.raises(ConfigError, match="990 and 1005"):
        check_feasible([trial(1000)], sites, observe_only=False)


def test_a_clock_must_be_on_the_grid_of_every_gpu(sites, tmp_path):
    [other] = fleet("a40", 1, str(tmp_path / "driver"))
    both = [*sites, site_of(other)]
    h200_mhz, a40_mhz = (set(site.capabilities.sm_clocks_mhz) for site in both)

    check_feasible([trial(max(h200_mhz & a40_mhz))], both, observe_only=False)
    with pytest.raises(ConfigError, match="the nearest"):
        check_feasible([trial(max(h200_mhz - a40_mhz))], both, observe_only=False)


def test_a_point_under_observe_only_is_refused_before_anything_starts(sites):
    with pytest.raises(ConfigError, match="allow control"):
        check_feasible([trial(990)], sites, observe_only=True)


def test_an_unknown_workload_is_refused_with_the_closest_name(sites):
    unknown = replace(trial(), configuration=replace(gemm(), workload="gem"))

    with pytest.raises(UnknownNameError, match="'gemm'"):
        check_feasible([unknown], sites, observe_only=False)


def test_a_study_needs_trials(sites):
    with pytest.raises(ConfigError, match="no trials"):
        check_feasible([], sites, observe_only=False)


def planned(num, *, repeats=1):
    """Return a plan of clocks with a sentinel before every two of them."""
    clocks = [gemm(clock) for clock in CLOCKS_MHZ[:num]]
    return plan_sweep(STUDY, clocks, repeats=repeats, sentinel=gemm(), sentinel_every=2)


def tied(plan, known, uuids):
    return ties(plan, rest_of(plan, known), known, uuids)


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
