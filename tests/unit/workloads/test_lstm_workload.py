"""The LSTM workload classifies and really trains, and costs what counting says."""

import pytest
import torch

from joulelab.errors import ConfigError
from joulelab.tracing.program import MATRIX_KINDS
from joulelab.tracing.trace import fake_tensors, trace
from joulelab.workloads import WORKLOADS, accelerator
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.lstm import GEOMETRIES

CPU = torch.device("cpu")
TINY = {"model": "tiny", "precision": "fp32", "batch": 64, "sequence_tokens": 4}


def lstm(**knobs):
    return WORKLOADS["lstm"].from_knobs(knobs)


def matrix_flop(phase):
    return sum(each.flop * each.count for each in phase.kernels if each.name in MATRIX_KINDS)


def forward_flop(shape, tokens):
    """Four gates of input and state for each token, layer and direction; then the classes."""
    directions, hidden = shape["num_directions"], shape["hidden_size"]
    widths = [shape["embedding_size"], directions * hidden]
    gates = sum(directions * 2 * 4 * hidden * (width + hidden) for width in widths)
    return tokens * gates + 2 * directions * hidden * 2


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("model", GEOMETRIES)
def test_inference_costs_the_gates_of_every_token_and_the_classes(model, precision):
    phase = cached_cost(lstm(model=model, precision=precision, sequence_tokens=16)).phase(
        "inference"
    )

    assert matrix_flop(phase) == phase.work * forward_flop(GEOMETRIES[model], 16)


@pytest.mark.parametrize("model", GEOMETRIES)
def test_a_training_step_costs_three_times_the_products_of_inference(model):
    cost = cached_cost(lstm(model=model, sequence_tokens=8))

    assert matrix_flop(cost.phase("train")) == 3 * matrix_flop(cost.phase("inference"))


def test_training_holds_weights_gradients_two_moments_and_the_roots_of_one():
    subject = lstm(model="large", batch=1, sequence_tokens=1)
    with fake_tensors():
        network, _ = subject.load(CPU)
    parameter_b = sum(4 * each.numel() for each in network.parameters())

    resident_b = subject.cost().resident_b

    assert resident_b == pytest.approx(5 * parameter_b, rel=1e-3)


def test_a_layer_waits_for_every_step_in_time_and_its_gradient_twice():
    cost = lstm(**{**TINY, "sequence_tokens": 5}).cost()

    waits = {
        phase: sum(each.count * each.steps for each in cost.phase(phase).kernels)
        for phase in ("inference", "train")
    }

    assert waits["inference"] > 0
    assert waits["train"] == 3 * waits["inference"]
    longer = lstm(**{**TINY, "sequence_tokens": 10}).cost().phase("inference")
    assert sum(each.count * each.steps for each in longer.kernels) == 2 * waits["inference"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_lstm_is_traced_as_one_kernel_a_layer_and_direction_on_every_machine(dtype):
    with fake_tensors():
        network = torch.nn.LSTM(8, 16, num_layers=3, bidirectional=True, dtype=dtype)
        kernels = trace(lambda: network(torch.zeros(5, 2, 8, dtype=dtype)))

    assert sum(each.name == "gemm" for each in kernels) == 6


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_lowers_the_loss_and_inference_leaves_the_weights_alone(precision):
    subject = lstm(**{**TINY, "precision": precision})
    with accelerator.seeded(0, CPU):
        network, programs = subject.load(CPU)
        steps = subject._training_where_due(network, programs)
    subject.prepared_programs = steps

    with torch.no_grad():
        before = programs["train"]().item()
    for _ in range(20):
        subject.run("train")
    weights = [each.clone() for each in network.parameters()]
    subject.run("inference")
    with torch.no_grad():
        after = programs["train"]().item()

    assert after < before
    assert all(map(torch.equal, weights, network.parameters()))
    subject.close()


def test_fp16_is_not_trained_in():
    """AdamW adds 1e-8 to the root of a second moment: both are 0 in fp16."""
    assert torch.tensor(1e-8).half() == 0
    assert lstm(precision="fp16").phases == ("inference",)
    assert lstm(precision="bf16").phases == ("inference", "train")


def test_a_trained_state_can_be_given_as_weights(tmp_path):
    with accelerator.seeded(1, CPU):
        network, _ = lstm(**TINY).load(CPU)
    torch.save(network.state_dict(), tmp_path / "state.pt")

    loaded, _ = lstm(**TINY, weights=str(tmp_path / "state.pt")).load(CPU)

    assert all(map(torch.equal, network.parameters(), loaded.parameters()))


def test_a_state_of_another_geometry_is_refused_in_one_line(tmp_path):
    torch.save({"other": torch.zeros(1)}, tmp_path / "state.pt")

    with pytest.raises(ConfigError, match="state of this network") as refused:
        lstm(**TINY, weights=str(tmp_path / "state.pt")).load(CPU)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("precision", "allowed"), [("tf32", True), ("fp32", False)])
def test_convolutions_and_recurrent_layers_use_tf32_only_when_asked(precision, allowed):
    before = torch.backends.cudnn.allow_tf32

    with accelerator.computing(precision):
        assert torch.backends.cudnn.allow_tf32 is allowed

    assert torch.backends.cudnn.allow_tf32 is before


def test_gradients_are_kept_only_when_asked():
    weight = torch.ones(1, requires_grad=True)

    with accelerator.computing("fp32", gradients=True):
        assert (2 * weight).requires_grad
    with accelerator.computing("fp32"):
        assert not (2 * weight).requires_grad
