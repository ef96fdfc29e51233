"""Every workload, at a size that a CPU runs in a moment, keeps the procedure's contract."""

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads import WORKLOADS

# Of "recorded" there is only a recording: it runs on a device that replays it.
RUNNABLE = sorted(set(WORKLOADS) - {"recorded"})
SMALL = {
    "gemm": {"n": 16, "precision": "fp32"},
    "stream": {"size_gb": 1e-5},
    "llama": {"model": "tiny", "precision": "fp32", "prompt_tokens": 8, "new_tokens": 4},
    "idle": {"duration_s": 0.001},
}
VARIANTS = [
    *SMALL.items(),
    ("gemm", {"n": 16, "precision": "bf16", "batch": 3}),
    ("gemm", {"n": 16, "precision": "fp64", "data": "zeros"}),
    ("stream", {"size_gb": 1e-5, "kernel": "triad", "precision": "bf16", "data": "zeros"}),
    ("llama", {**SMALL["llama"], "batch": 2, "precision": "bf16", "kv_cache": "static"}),
    ("llama", {**SMALL["llama"], "attention": "eager", "new_tokens": 1}),
]


@pytest.mark.parametrize(("name", "knobs"), VARIANTS)
def test_each_phase_does_the_work_that_the_cost_names_every_time(name, knobs):
    workload = WORKLOADS[name].from_knobs(knobs)
    workload.prepare()

    work = {phase: {workload.run(phase) for _ in range(2)} for phase in workload.phases}

    workload.close()
    workload.close()
    assert work == {phase.phase: {phase.work} for phase in workload.cost().phases}


@pytest.mark.parametrize("name", RUNNABLE)
def test_small_settings_exist_for_every_workload(name):
    assert name in SMALL


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_defaults_are_settings_and_their_cost_names_the_phases(name):
    workload = WORKLOADS[name].from_knobs({})

    cost = workload.cost()

    assert tuple(phase.phase for phase in cost.phases) == workload.phases
    assert cost.unit == workload.unit


@pytest.mark.parametrize(("name", "knobs"), SMALL.items())
def test_an_unknown_phase_is_refused(name, knobs):
    workload = WORKLOADS[name].from_knobs(knobs)

    with pytest.raises(UnknownNameError, match="phase"):
        workload.run("warmup")


@pytest.mark.parametrize("name", ["gemm", "stream", "llama"])
def test_a_run_without_preparation_is_refused(name):
    workload = WORKLOADS[name].from_knobs(SMALL[name])

    with pytest.raises(ConfigError, match="prepared"):
        workload.run(workload.phases[0])


@pytest.mark.parametrize("name", ["gemm", "stream", "llama"])
def test_a_closed_workload_can_be_prepared_again(name):
    workload = WORKLOADS[name].from_knobs(SMALL[name])
    workload.prepare()
    workload.close()

    workload.prepare()

    assert workload.run(workload.phases[0]) > 0
    workload.close()


@pytest.mark.parametrize("name", ["gemm", "llama"])
def test_a_precision_that_the_processor_lacks_is_refused_with_those_that_it_has(name):
    workload = WORKLOADS[name].from_knobs({**SMALL[name], "precision": "tf32"})

    with pytest.raises(ConfigError, match=r"the CPU has .*bf16.*got 'tf32'"):
        workload.prepare()
