"""What modules of attention become on a GPU in inference."""

import pytest
import torch
from torch import nn

from joulelab.tracing.fast_paths import FAST_PATHS, SEVERAL_KERNELS, without_fast_paths
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program

WIDTH, HEADS = 32, 4


def names(build, **asked):
    with fake_tensors():
        network = fake_network(lambda: build().eval())
        x = torch.empty(2, 16, WIDTH)
        program = trace_program(lambda: network(x), network=network, inputs=x, **asked)
    return [operator.name for operator in program.operators]


class Attending(nn.Module):
    def __init__(self, **asked):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.asked = asked

    def forward(self, x):
        return self.attention(x, x, x, **self.asked)


def encoder_layer(**asked):
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True, **asked)


def test_attention_of_one_sequence_is_two_products_around_a_fused_kernel():
    first, attention, last = names(lambda: Attending(need_weights=False))

    assert (first, last) == ("addmm", "addmm")
    assert "attention" in attention


def test_attention_that_returns_its_weights_falls_apart():
    found = names(Attending)

    products = [name for name in found if name not in ("clone", "mul_")]
    assert products == ["addmm", "bmm", "_softmax", "bmm", "addmm"]


def test_a_layer_of_an_encoder_has_its_activation_in_a_product():
    found = names(encoder_layer)

    assert "_addmm_activation" in found
    assert found.count("native_layer_norm") == 2
    assert not {"relu", "clone", "_transformer_encoder_layer_fwd"} & {*found}


def test_compiled_and_trained_modules_run_their_own_code():
    with without_fast_paths():
        compiled = names(encoder_layer)

    assert "relu" in compiled
    assert "relu" in names(encoder_layer, gradients=True)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("asked", [{"need_weights": False}, {"need_weights": True}])
def test_attention_computes_what_pytorch_computes(asked):
    network = Attending(**asked).eval()
    x = torch.randn(2, 16, WIDTH)
    own = network.attention
    arguments = (own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias)
    instead = FAST_PATHS[torch.ops.aten._native_multi_head_attention.default]
    with torch.inference_mode():
        expected = network(x)[0]
        found = instead(x, x, x, WIDTH, HEADS, *arguments, None, **asked)[0]

    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_layer_of_an_encoder_computes_what_pytorch_computes(norm_first, activation):
    layer = encoder_layer(norm_first=norm_first, activation=activation).eval()
    x = torch.randn(2, 16, WIDTH)
    own, calls = layer.self_attn, []
    instead = FAST_PATHS[torch.ops.aten._transformer_encoder_layer_fwd.default]
    arguments = (
        *(WIDTH, HEADS, own.in_proj_weight, own.in_proj_bias, own.out_proj.weight),
        *(own.out_proj.bias, activation == "gelu", norm_first, layer.norm1.eps),
        *(layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias),
        *(layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias),
    )
    with torch.inference_mode():
        calls.append(instead(x, *arguments))
        expected = layer(x)

    torch.testing.assert_close(calls[0], expected, atol=2e-3, rtol=1e-3)  # its gelu is tanh's


def test_distances_are_multiplied_as_pytorch_does():
    """They were one kernel of one operation for each distance: 65,536 where it was 8.7 million."""
    x, y = torch.randn(4, 128, 64), torch.randn(4, 32, 64)
    ((_, _, instead),) = (
        each for each in SEVERAL_KERNELS if each[0] is torch.ops.aten._euclidean_dist.default
    )
    with fake_tensors():
        fake = torch.empty(4, 128, 64), torch.empty(4, 32, 64)
        traced = trace_program(lambda: torch.cdist(*fake), inputs=fake)

    products = [each for each in traced.operators if each.kind == "gemm"]
    assert [each.flop for each in products] == [2 * 4 * 128 * 32 * (64 + 2)]
    torch.testing.assert_close(instead(x, y), torch.cdist(x, y), atol=1e-3, rtol=1e-4)
