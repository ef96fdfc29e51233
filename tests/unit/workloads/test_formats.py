"""Quantised networks round as their formats do, really shrink, and leave the rest alone."""

import io

import pytest
import torch

from joulelab.errors import ConfigError
from joulelab.tracing.operators import dense_parts
from joulelab.tracing.trace import fake_tensors, trace_program
from joulelab.workloads import accelerator, formats

CPU = torch.device("cpu")
QUANTISED = ("int8", "int4", "fp8")
NUM_INPUTS, NUM_OUTPUTS, GROUP = 256, 64, 128


def linear(precision="fp32", *, inputs=NUM_INPUTS, outputs=NUM_OUTPUTS, bias=False):
    with accelerator.seeded(3, CPU):
        layer = torch.nn.Linear(inputs, outputs, bias=bias)
    return torch.nn.Sequential(layer).to(formats.storage_dtype(precision)).requires_grad_(False)


def stored(precision, **sizes):
    network = linear(precision, **sizes)
    formats.store_in(network, precision)
    return network


def fake(precision):
    dtype = formats.storage_dtype(precision)
    network = torch.nn.Sequential(torch.nn.Linear(NUM_INPUTS, NUM_OUTPUTS, bias=False, dtype=dtype))
    formats.store_in(network, precision)
    return network


def rows(num_rows, dtype=torch.float32):
    return torch.randn(num_rows, NUM_INPUTS, generator=torch.Generator().manual_seed(1)).to(dtype)


def relative_error(precision, x):
    with torch.inference_mode():
        exact = linear()(x)
        rounded = stored(precision)(x.to(formats.storage_dtype(precision)))
    return ((rounded - exact).norm() / exact.norm()).item()


def relative_rounding(numbers, step):
    """Mean square error of numbers rounded to multiples of ``step``, over their mean square."""
    return (step.square().mean() / 12 / numbers.square().mean()).item()


def stored_b(network):
    return sum(
        part.untyped_storage().nbytes()
        for tensor in network.parameters()
        for part in dense_parts(tensor)
    )


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16"])
def test_a_floating_point_precision_of_pytorch_changes_nothing(precision):
    network = linear(precision)
    weight = network[0].weight

    formats.store_in(network, precision)

    assert network[0].weight is weight
    assert type(network[0]) is torch.nn.Linear


@pytest.mark.parametrize("num_rows", [3, 40])
def test_int8_errs_as_rounding_rows_of_weights_and_of_inputs_does(num_rows):
    x, weight = rows(num_rows), linear()[0].weight

    error = relative_error("int8", x)

    weights = relative_rounding(weight, weight.abs().amax(1) / 127)
    inputs = relative_rounding(x, x.abs().amax(1) / 127)
    assert error == pytest.approx((weights + inputs) ** 0.5, rel=0.15)


def test_int4_errs_as_rounding_groups_of_weights_to_sixteen_steps_does():
    groups = linear()[0].weight.reshape(-1, GROUP)

    error = relative_error("int4", rows(40))

    step = (groups.amax(1) - groups.amin(1)) / 15
    assert error == pytest.approx(relative_rounding(groups, step) ** 0.5, rel=0.15)


def test_fp8_weights_err_by_at_most_half_a_step_of_three_bits():
    exact = linear()[0].weight

    rounded = stored("fp8")[0].weight.dequantize()

    error = ((rounded - exact) / exact).abs()[exact.abs() > exact.abs().amax() / 100]
    assert 2**-6 < error.max().item() <= 2**-4 * 1.04  # bf16 before and after
    assert error.mean().item() == pytest.approx(2**-4 / 3, rel=0.3)


@pytest.mark.parametrize(
    ("precision", "expected_b"),
    [
        ("int8", NUM_INPUTS * NUM_OUTPUTS + 5 * NUM_OUTPUTS),  # fp32 scale and zero of each row
        ("int4", NUM_INPUTS * NUM_OUTPUTS / 2 + 4 * NUM_OUTPUTS * NUM_INPUTS / GROUP),
        ("fp8", NUM_INPUTS * NUM_OUTPUTS + 4 * NUM_OUTPUTS),
    ],
)
def test_weights_really_shrink_to_their_format(precision, expected_b):
    assert stored_b(linear(precision)) == 2 * NUM_INPUTS * NUM_OUTPUTS

    assert stored_b(stored(precision)) == expected_b


def test_on_a_gpu_int4_is_packed_in_tiles_of_1024_inputs():
    with fake_tensors():
        network = fake("int4")
        x = torch.empty(5, NUM_INPUTS, dtype=torch.bfloat16)
        program = trace_program(lambda: network(x), network=network)

    product = next(each for each in program.operators if each.kind == "gemm")
    assert program.parameter_b == NUM_OUTPUTS * 1024 * (1 / 2 + 4 / GROUP)
    assert product.weight_b == program.parameter_b
    assert product.flop == 2 * 5 * 1024 * NUM_OUTPUTS
    assert product.pipe == "tensor_bf16"


@pytest.mark.parametrize(
    ("precision", "pipe", "num_rows"), [("int8", "tensor_int8", 32), ("fp8", "tensor_fp8", 5)]
)
def test_eight_bits_are_multiplied_in_eight_bits(precision, pipe, num_rows):
    with fake_tensors():
        network = fake(precision)
        x = torch.empty(5, NUM_INPUTS, dtype=formats.storage_dtype(precision))
        program = trace_program(lambda: network(x), network=network)

    product = next(each for each in program.operators if each.kind == "gemm")
    assert product.pipe == pipe
    assert product.flop == 2 * num_rows * NUM_INPUTS * NUM_OUTPUTS
    assert NUM_INPUTS * NUM_OUTPUTS <= product.weight_b < 1.05 * NUM_INPUTS * NUM_OUTPUTS


def test_a_row_alone_gives_what_it_gives_among_many():
    network, x = stored("int8", bias=True), rows(40, torch.float16)

    with torch.inference_mode():
        alone, among = network(x[:1]), network(x)[:1]

    assert torch.equal(alone, among)


def test_rows_of_zeros_give_the_bias():
    network = stored("int8", bias=True)

    with torch.inference_mode():
        result = network(torch.zeros(2, 3, NUM_INPUTS, dtype=torch.float16))

    assert torch.equal(result, network[0].bias.expand(2, 3, NUM_OUTPUTS))


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_the_state_of_a_quantised_network_can_be_kept_and_taken_back(precision):
    kept, taken = io.BytesIO(), stored(precision)
    original = stored(precision)
    taken[0].weight = torch.nn.Parameter(
        type(taken[0].weight).from_hp(
            torch.zeros_like(linear(precision)[0].weight), *like(precision)
        ),
        requires_grad=False,
    )
    torch.save(original.state_dict(), kept)
    kept.seek(0)

    taken.load_state_dict(torch.load(kept, weights_only=True), assign=True)

    x = rows(4, formats.storage_dtype(precision))
    with torch.inference_mode():
        assert torch.equal(taken(x), original(x))
        assert original(x).any()


def like(precision):
    from torchao.quantization import PerRow

    return (PerRow(),) if precision == "int8" else ([1, GROUP],)


class Speller(torch.nn.Module):
    """Two embeddings, one tied to a layer, a convolution, and an output layer."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 64)
        self.convolution = torch.nn.Conv1d(64, 64, 3)
        self.inner = torch.nn.Linear(64, 64)
        self.odd = torch.nn.Linear(64, 30)
        self.tied = torch.nn.Linear(64, 32, bias=False)
        self.tied.weight = self.embedding.weight
        self.head = torch.nn.Linear(64, 32)

    def get_output_embeddings(self):
        return self.head


@pytest.mark.parametrize("precision", QUANTISED)
def test_only_inner_linear_layers_of_a_fitting_shape_are_quantised(precision):
    network = Speller().to(formats.storage_dtype(precision))

    formats.store_in(network, precision)

    changed = [
        name for name, each in network.named_parameters() if type(each.data) is not torch.Tensor
    ]
    assert changed == ["inner.weight"]


@pytest.mark.parametrize("precision", QUANTISED)
def test_a_network_without_a_layer_to_quantise_is_refused(precision):
    with pytest.raises(ConfigError, match=rf"{precision} needs linear layers.*choose fp32"):
        stored(precision, outputs=30)


@pytest.mark.parametrize(
    ("capability", "known"),
    [
        ((7, 0), "fp64, fp32, fp16"),
        ((7, 5), "fp64, fp32, fp16, int8"),
        ((8, 0), "fp64, fp32, tf32, fp16, bf16, int8, int4"),
    ],
)
def test_a_precision_that_a_gpu_lacks_is_refused_with_those_that_it_has(
    monkeypatch, capability, known
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")

    with pytest.raises(ConfigError, match=rf"that a GPU has \({known}\), got 'fp8'"):
        accelerator.require_precision("fp8", torch.device("cuda"))


def test_the_cpu_multiplies_int8_and_int4_but_not_fp8():
    for precision in ("int8", "int4"):
        accelerator.require_precision(precision, CPU)

    with pytest.raises(ConfigError, match=r"the CPU has .*int8, int4.*, got 'fp8'"):
        accelerator.require_precision("fp8", CPU)
