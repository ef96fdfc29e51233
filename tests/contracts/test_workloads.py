"""Every workload, at a size that a CPU runs in a moment, keeps the procedure's contract.

A workload that is registered but not in the table of tiniest knobs fails: registering is how it
gets tested.
"""

import dataclasses
from typing import get_args, get_type_hints

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.testing import WorkloadContract
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.idle import Idle
from joulelab.workloads.network import NetworkWorkload

# Of "recorded" there is only a recording, which a device replays; "server" is tested where its
# server is, tests/unit/serving.
RUNNABLE = sorted(set(WORKLOADS) - {"recorded", "server"})
TINY = {
    "bert": {"model": "tiny", "precision": "fp32", "tokens": 8, "batch": 16},
    "bloom": {"model": "tiny", "precision": "fp32", "prompt_tokens": 8, "new_tokens": 4},
    "char-lm": {"weights": None, "prompt_tokens": 8, "new_tokens": 4, "batch": 2},
    "detection": {"model": "tiny", "precision": "fp32", "image_size": 32},
    "diffusion": {"model": "tiny", "precision": "fp32", "steps": 2},
    "digits-diffusion": {"weights": None, "steps": 3, "batch": 2},
    "digits-lstm": {"weights": None, "batch": 256, "rows": 3},
    "digits-vit": {"weights": None, "batch": 256},
    "gemm": {"n": 16, "precision": "fp32"},
    "idle": {"duration_s": 0.001},
    "llama": {"model": "tiny", "precision": "fp32", "prompt_tokens": 8, "new_tokens": 4},
    "lstm": {"model": "tiny", "precision": "fp32", "batch": 64, "sequence_tokens": 4},
    "resnet50": {"precision": "fp32", "batch": 32, "image_size": 32},
    "stream": {"size_gb": 1e-5},
    "vit": {"model": "tiny", "precision": "fp32", "batch": 32},
    "whisper": {"model": "toy", "precision": "fp32", "tokens_per_second": 0.1},
}
VARIANTS = [
    ("bert", {**TINY["bert"], "precision": "int8", "batch": 1}),
    ("bloom", {**TINY["bloom"], "batch": 2, "precision": "bf16", "kv_cache": "static"}),
    ("diffusion", {**TINY["diffusion"], "model": "tiny-xl", "precision": "bf16", "batch": 2}),
    ("char-lm", {**TINY["char-lm"], "precision": "int4"}),
    ("digits-diffusion", {**TINY["digits-diffusion"], "precision": "int4", "scheduler": "dpm++"}),
    ("digits-lstm", {**TINY["digits-lstm"], "precision": "int8"}),
    ("digits-vit", {**TINY["digits-vit"], "precision": "int4"}),
    ("gemm", {"n": 16, "precision": "bf16", "batch": 3}),
    ("gemm", {"n": 16, "precision": "fp64", "data": "zeros"}),
    ("llama", {**TINY["llama"], "batch": 2, "precision": "bf16", "kv_cache": "static"}),
    ("llama", {**TINY["llama"], "attention": "eager", "new_tokens": 1}),
    ("llama", {**TINY["llama"], "context_tokens": 20, "precision": "int8"}),
    ("detection", {**TINY["detection"], "precision": "bf16", "batch": 2}),
    ("detection", {**TINY["detection"], "model": "yolos-tiny"}),
    ("lstm", {**TINY["lstm"], "precision": "bf16"}),
    ("lstm", {**TINY["lstm"], "precision": "fp16"}),
    ("resnet50", {**TINY["resnet50"], "channels_last": False}),
    ("vit", {**TINY["vit"], "precision": "int8"}),
    ("stream", {"size_gb": 1e-5, "kernel": "triad", "precision": "bf16", "data": "zeros"}),
    ("whisper", {**TINY["whisper"], "batch": 2, "beams": 2, "precision": "int8"}),
]
# Values that no knob of a type takes: whatever it counts or chooses.
WRONG = {int: -1, float: float("nan")}


def tiny(name):
    return WORKLOADS[name].from_knobs(TINY[name])


def wrong_values():
    for name in RUNNABLE:
        for knob, kind in get_type_hints(WORKLOADS[name].settings_type).items():
            if kind in WRONG:
                yield pytest.param(name, knob, WRONG[kind], id=f"{name}-{knob}")
            elif str in {type(choice) for choice in get_args(kind)}:
                yield pytest.param(name, knob, "no such thing", id=f"{name}-{knob}")


def test_every_workload_has_its_tiniest_knobs_here():
    assert sorted(TINY) == RUNNABLE


@pytest.mark.parametrize(("name", "knobs"), VARIANTS)
def test_each_phase_does_the_work_that_the_cost_names_every_time(name, knobs):
    require_work_of_cost(WORKLOADS[name].from_knobs(knobs))


def require_work_of_cost(workload):
    workload.prepare()

    work = {phase: {workload.run(phase) for _ in range(2)} for phase in workload.phases}

    workload.close()
    workload.close()
    cost = cached_cost(workload)
    assert list(work) == [phase.phase for phase in cost.phases]
    for phase in cost.phases:  # all of a run, or some of its equal parts
        parts = {parts_done(done, phase, workload) for done in work[phase.phase]}
        assert parts <= set(range(1, workload.parts(phase.phase) + 1))


def parts_done(done, phase, workload):
    parts = done / phase.work * workload.parts(phase.phase)
    return round(parts) if parts == pytest.approx(round(parts), rel=1e-9) else parts


class TestEveryWorkload(WorkloadContract):
    @pytest.fixture(params=sorted(TINY))
    def make(self, request):
        return lambda: tiny(request.param)

    def test_each_phase_does_the_same_positive_work_each_time(self, make):
        """That which its cost names, whose work is positive; more than the contract asks."""
        require_work_of_cost(make())

    def test_a_run_without_preparation_is_refused(self, make):
        if isinstance(make(), Idle):
            pytest.skip("Idling needs no preparation.")
        super().test_a_run_without_preparation_is_refused(make)


@pytest.mark.parametrize("name", TINY)
def test_an_unknown_phase_is_refused(name):
    with pytest.raises(UnknownNameError, match="phase"):
        tiny(name).run("warmup")


@pytest.mark.parametrize(("name", "knob", "value"), [*wrong_values()])
def test_a_wrong_knob_is_one_line_that_names_it(name, knob, value):
    with pytest.raises(ConfigError, match=rf"\b{knob}\b") as refused:
        WORKLOADS[name].from_knobs({**TINY[name], knob: value})

    assert "\n" not in str(refused.value)


def has_tf32(name):
    kinds = get_type_hints(WORKLOADS[name].settings_type)
    return "tf32" in get_args(kinds.get("precision"))


@pytest.mark.parametrize("name", [name for name in TINY if has_tf32(name)])
def test_a_precision_that_the_processor_lacks_is_refused_with_those_that_it_has(name):
    workload = WORKLOADS[name].from_knobs({**TINY[name], "precision": "tf32"})

    with pytest.raises(ConfigError, match=r"the CPU has .*bf16.*got 'tf32'"):
        workload.prepare()


@pytest.mark.parametrize("name", TINY)
def test_a_network_says_where_its_weights_come_from(name):
    if issubclass(WORKLOADS[name], NetworkWorkload):
        known = [field.name for field in dataclasses.fields(WORKLOADS[name].settings_type)]

        assert "weights" in known, "provenance tags a result with the knob of that name"


# Another value of each knob that says what a network is given.
OTHER_INPUTS = {
    "audio_seconds": 31.0, "batch": 3, "beams": 3, "confidence": 0.1, "context_tokens": 9,
    "guidance": 2.0, "kv_cache": "static", "new_tokens": 3, "prompt_tokens": 5, "resolution": 64,
    "rows": 2, "scheduler": "dpm++", "seed": 5, "steps": 1, "tokens": 6, "tokens_per_second": 0.2,
}  # fmt: skip
NETWORKS = [name for name in TINY if issubclass(WORKLOADS[name], NetworkWorkload)]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_run_again_on_other_inputs(name):
    others = {knob: OTHER_INPUTS[knob] for knob in WORKLOADS[name].input_knobs}
    first, other = tiny(name), WORKLOADS[name].from_knobs(TINY[name] | others)
    first.prepare()
    network = first.kept.of(first.network_key)

    other.take_over(first)
    first.close()
    other.prepare()
    try:
        assert other.kept.of(other.network_key) is network
        assert (network is not None) == first.is_network_kept
        for phase in other.phases:
            assert other.run(phase) == other.executions(phase) * other.work(phase)
    finally:
        other.close()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_other_knobs_is_built_anew(name):
    first, other = tiny(name), WORKLOADS[name].from_knobs({**TINY[name], "precision": "bf16"})
    first.prepare()
    try:
        other.take_over(first)

        assert first.kept.of(other.network_key) is None
        assert other.kept.of(other.network_key) is None
    finally:
        first.close()
