"""Calls of programs, recorded as PyTorch runs them: here on the CPU."""

from collections import Counter

import pytest
import torch
from torch import distributed
from torch.profiler import ProfilerActivity, profile

from joulelab.attribution.components import component_of
from joulelab.attribution.torch_calls import IN_A_ROW, TensorLike, record, steps_of
from joulelab.attribution.torch_data import filled
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.program import workload_type

LLAMA = {"model": "tiny", "precision": "fp32", "prompt_tokens": 16, "new_tokens": 8}


@pytest.fixture(scope="module")
def llama():
    workload = WORKLOADS["llama"].from_knobs(LLAMA)
    workload.prepare()
    yield workload
    workload.close()


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_calls_have_modules_components_and_the_kernels_of_their_shapes(llama, phase):
    calls = record(steps_of(llama, phase), with_data=False)
    components = {component_of(call.operator) for call in calls.values()}
    projections = [
        call.kernel for call in calls.values() if call.operator.module.endswith("q_proj")
    ]

    assert {"attention projections", "feed-forward", "KV cache", "sampling"} <= components
    assert len(projections) == 2  # layers
    assert len(set(projections)) == 1


def test_a_decode_is_its_middle_step(llama):
    steps = steps_of(llama, "decode")
    (cat, *_) = [
        call
        for call in record(steps, with_data=True).values()
        if call.operator.name == "cat" and component_of(call.operator) == "KV cache"
    ]

    assert steps.executions == LLAMA["new_tokens"]
    assert steps.work == 1.0
    assert [like.shape[2] for like in cat.args[0]] == [16 + 4, 1]


def test_weights_and_caches_are_cold_and_what_a_program_made_is_not(llama):
    calls = record(steps_of(llama, "decode"), with_data=True).values()
    (product,) = [call for call in calls if call.operator.module == "lm_head"]
    tensors = [arg for arg in product.args if isinstance(arg, TensorLike)]

    assert [one.is_cold for one in tensors] == [False, True]


def test_the_first_call_of_a_kernel_keeps_its_data(llama):
    calls = list(record(steps_of(llama, "prefill"), with_data=True).values())
    (lookup,) = [call for call in calls if call.operator.name == "embedding"]
    weight, tokens = lookup.args[:2]
    first, *others = [call for call in calls if call.operator.module.endswith("q_proj")]

    kept = filled(tokens.data, 16, torch.int64, "cpu").tolist()
    assert len(set(kept)) > 1
    assert 0 <= min(kept) < max(kept) < 256
    shape = weight.shape
    values = filled(weight.data, shape[0] * shape[1], torch.float32, "cpu")
    assert values.std() == pytest.approx(0.02, rel=0.1)  # as transformers draws them
    assert all(arg.data is not None for arg in first.args if isinstance(arg, TensorLike))
    assert others
    assert all(
        arg.data is None for one in others for arg in one.args if isinstance(arg, TensorLike)
    )


def test_a_loop_can_be_stepped_as_often_as_a_profile_does():
    workload = WORKLOADS["digits-diffusion"].from_knobs({"weights": None})
    workload.prepare()
    steps = steps_of(workload, "denoising")
    with steps.around():
        steps.reset()
        for _ in range(IN_A_ROW + 1):
            steps.once()

    assert steps.executions == 20
    assert record(steps, with_data=False)


def test_training_has_stages_and_the_modules_of_the_forward_pass():
    network = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(network.parameters())

    def step():
        optimizer.zero_grad()
        network(torch.randn(4, 8)).sum().backward()
        optimizer.step()

    step()
    workload = workload_type(step).from_knobs({})
    workload.prepare()
    operators = [
        call.operator for call in record(steps_of(workload, "call"), with_data=False).values()
    ]

    assert {"forward", "backward", "optimizer"} == {one.stage for one in operators}
    backward = {one.module for one in operators if one.stage == "backward" and one.name == "mm"}
    assert backward
    assert "optimiser" in {component_of(one) for one in operators}


@pytest.fixture
def group(tmp_path):
    """A group of this process alone."""
    meeting = f"file://{tmp_path}/meeting"
    distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_sum_over_ranks_is_communication_and_the_same_kernel_each_time(group):
    values = torch.ones(4)

    def step():
        distributed.all_reduce(values)
        distributed.all_reduce(values)

    workload = workload_type(step).from_knobs({})
    workload.prepare()
    calls = record(steps_of(workload, "call"), with_data=False).values()

    assert [component_of(call.operator) for call in calls] == ["communication"] * 2
    assert len({call.kernel for call in calls}) == 1


def test_what_runs_no_program_of_pytorch_cannot_be_followed():
    with pytest.raises(ConfigError, match="no program of PyTorch"):
        steps_of(WORKLOADS["idle"].from_knobs({}), "idle")


PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution"}


@pytest.mark.parametrize(
    ("name", "knobs", "phase"),
    [
        ("llama", {**LLAMA, "batch": 3}, "prefill"),
        ("llama", {**LLAMA, "batch": 3}, "decode"),
        ("bloom", {**LLAMA, "batch": 3}, "prefill"),
        ("bert", {"model": "tiny", "precision": "fp32", "batch": 3}, "forward"),
        ("vit", {"model": "tiny", "precision": "fp32", "batch": 3}, "forward"),
    ],
)
def test_recorded_products_are_those_that_run_unrecorded(name, knobs, phase):
    workload = WORKLOADS[name].from_knobs(knobs)
    workload.prepare()
    steps = steps_of(workload, phase)
    recorded = Counter(
        f"aten::{call.operator.name}" for call in record(steps, with_data=False).values()
    )
    with steps.around():
        steps.reset()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            steps.once()
    ran = Counter(event.name for event in profiled.events())

    assert {each: recorded[each] for each in PRODUCTS} == {each: ran[each] for each in PRODUCTS}
    assert sum(recorded[each] for each in PRODUCTS) > 4
    workload.close()
