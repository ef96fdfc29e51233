"""What is left to do of a study, and whether it can be done."""

import os
from dataclasses import replace

import pytest
from actor_fixtures import QUICK, gemm, simulated_gpus, site_of, trial, trials

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Finding
from joulelab.devices.simulated import fleet
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.study.resume import check_feasible, rest_of
from joulelab.study.worker import WorkerSettings
from joulelab_actors.gpu_actor import GpuActor


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    [address] = simulated_gpus(folder)
    settings = WorkerSettings(results_dir=folder / "results", procedure=QUICK, observe_only=True)
    actor = GpuActor(address, settings)
    report = actor.measure(trial(), os.getpid())
    actor.close()
    return report.records[0].measurement


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


def test_a_simulated_product_that_computes_in_no_format_is_refused_before_anything_starts(tmp_path):
    """Six hundred trials in bfloat16 on a V100 were each tried, and found unsupported."""
    [v100] = fleet("v100_sxm2", 1, str(tmp_path / "driver"))
    in_bf16, in_fp16 = (
        replace(trial(None), configuration=gemm(precision=each)) for each in ("bf16", "fp16")
    )

    check_feasible([in_bf16, in_fp16], [site_of(v100)], observe_only=False)
    with pytest.raises(ConfigError, match="bf16"):
        check_feasible([in_bf16], [site_of(v100)], observe_only=False)


def test_a_study_needs_trials(sites):
    with pytest.raises(ConfigError, match="no trials"):
        check_feasible([], sites, observe_only=False)


def test_a_clock_must_be_on_the_grid_of_the_product_that_it_is_for_alone(sites, tmp_path):
    [other] = fleet("a40", 1, str(tmp_path / "driver"))
    both = [*sites, site_of(other)]
    h200_mhz, a40_mhz = (set(site.capabilities.sm_clocks_mhz) for site in both)
    of_h200 = max(h200_mhz - a40_mhz)

    check_feasible([trial(of_h200, device_name="NVIDIA H200")], both, observe_only=False)
    with pytest.raises(ConfigError, match="the nearest"):
        check_feasible([trial(of_h200, device_name="NVIDIA A40")], both, observe_only=False)


def test_what_one_product_measured_is_left_to_do_for_another(measured):
    """A sweep that went on on other GPUs took what the first had measured for done."""
    ours, theirs = (trial(device_name=name) for name in ("NVIDIA H200", "NVIDIA A40"))

    assert rest_of([ours, theirs], [measured]) == [theirs]


def test_a_study_goes_on_on_one_product_or_several_however_it_began(measured):
    alone = trial(device_name="NVIDIA H200")
    mixed = alone.beside_others()
    stored = replace(measured, trial=mixed.name)

    assert mixed.name == f"h200-{alone.name}"
    assert rest_of([alone, mixed], [measured]) == []
    assert rest_of([alone, mixed], [stored]) == []
