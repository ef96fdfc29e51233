"""Which component and layer an operator belongs to."""

import pytest

from joulelab.attribution.components import component_of, layer_of
from joulelab.errors import ConfigError
from joulelab.tracing.program import KV_CACHE, Operator, region, region_of, within_region


def operator(module, name="mm", kind="gemm", **others):
    return Operator(
        name=name,
        kind=kind,
        module=module,
        flop=1.0,
        read_b=1.0,
        weight_b=0.0,
        written_b=1.0,
        **others,
    )


@pytest.mark.parametrize(
    ("module", "name", "kind", "component"),
    [
        ("model.embed_tokens", "embedding", "gather", "embedding"),
        ("model.layers.3.self_attn.q_proj", "mm", "gemm", "attention projections"),
        ("model.layers.3.self_attn", "bmm", "gemm", "attention core"),
        ("model.layers.3.self_attn", "_softmax", "softmax", "attention core"),
        ("model.rotary_emb", "cos", "elementwise", "attention core"),
        ("model.layers.3.input_layernorm", "pow", "elementwise", "normalisation"),
        ("model.layers.3.mlp.gate_proj", "mm", "gemm", "feed-forward"),
        ("model.layers.3.mlp", "mul", "elementwise", "feed-forward"),
        ("model.layers.3", "add", "elementwise", "residual"),
        ("lm_head", "mm", "gemm", "output head"),
        ("", "argmax", "reduction", "sampling"),
        ("bert.encoder.layer.0.attention.output.LayerNorm", "native_layer_norm", "norm",
         "normalisation"),
        ("bert.encoder.layer.0.attention.output.dense", "addmm", "gemm", "attention projections"),
        ("bert.encoder.layer.0.output.dense", "addmm", "gemm", "feed-forward"),
        ("transformer.h.0.self_attention.query_key_value", "addmm", "gemm",
         "attention projections"),
        ("transformer.h.0.mlp.dense_h_to_4h", "addmm", "gemm", "feed-forward"),
        ("unet.down_blocks.0.resnets.0.conv1", "convolution", "conv", "convolution"),
        ("unet.down_blocks.0.resnets.0.conv1", "add_", "elementwise", "convolution"),
        ("unet.mid_block.attentions.0.transformer_blocks.0.attn1.to_q", "mm", "gemm",
         "attention projections"),
        ("layer1.0.relu", "relu_", "elementwise", "activation"),
        ("", "all_reduce", "copy", "communication"),
        ("lstm", "mkldnn_rnn_layer", "gemm", "recurrence"),
        ("lstm", "_cudnn_rnn_backward", "gemm", "recurrence"),
        ("pool", "mean", "reduction", "other"),
    ],
)  # fmt: skip
def test_a_component_is_told_by_module_and_operator(module, name, kind, component):
    assert component_of(operator(module, name, kind)) == component


def test_what_the_optimizer_runs_is_a_component_of_its_own():
    assert component_of(operator("model.layers.0.mlp", stage="optimizer")) == "optimiser"


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        ("model.layers.11.self_attn.q_proj", "model.layers.11"),
        ("bert.encoder.layer.0.output.dense", "bert.encoder.layer.0"),
        ("layer1.0.conv1", "layer1.0"),
        ("unet.down_blocks.2.resnets.1.conv1", "unet.down_blocks.2"),
        ("0.weight", "0"),
        ("lm_head", ""),
        ("", ""),
    ],
)
def test_a_layer_is_the_path_up_to_its_first_number(module, layer):
    assert layer_of(operator(module)) == layer


def test_a_region_names_the_component_and_the_innermost_counts():
    with region("router"), region("experts"):
        path = within_region("model.layers.2.mlp")

    assert component_of(operator(path)) == "experts"
    assert layer_of(operator(path)) == "model.layers.2"
    assert within_region("model") == "model"


def test_a_region_ends_where_its_block_raises():
    with pytest.raises(ValueError, match="inside"), region("router"):
        raise ValueError("inside")

    assert region_of(within_region("x")) == ""


def test_what_a_cache_does_is_told_apart_from_attention():
    with region(KV_CACHE):
        path = within_region("model.layers.0.self_attn")

    assert component_of(operator(path, "cat", "copy")) == "KV cache"


@pytest.mark.parametrize("name", ["", "a#b"])
def test_a_region_without_a_usable_name_is_refused(name):
    with pytest.raises(ConfigError, match="region"), region(name):
        pass
