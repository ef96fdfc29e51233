"""A model cut over devices is the model of one device's share, plus sums."""

import pytest

from joulelab.errors import ConfigError
from joulelab.estimator.models import tensor_parallel, trace_model

LAYERS = 2


def llama(num_devices=1):
    """Name a Llama of which ``num_devices`` share heads and features."""
    return (
        f"hf:llama?hidden_size=512&head_dim=64&num_hidden_layers={LAYERS}&vocab_size=1000"
        f"&num_attention_heads={8 // num_devices}&num_key_value_heads={4 // num_devices}"
        f"&intermediate_size={1024 // num_devices}"
    )


def traced(name, precision="bf16"):
    return trace_model(name, batch=2, precision=precision, prompt_tokens=64, new_tokens=4)


@pytest.mark.parametrize("num_devices", [2, 4])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_cut_model_is_the_trace_of_a_network_with_a_share_of_heads(num_devices, precision):
    cut = tensor_parallel(traced(llama(), precision), num_devices)
    share = traced(llama(num_devices), precision)

    for mine, theirs in zip(cut.phases, share.phases, strict=True):
        operators = [each for each in mine.program.operators if each.name != "all_reduce"]
        assert len(operators) == len(theirs.program.operators)
        for a, b in zip(operators, theirs.program.operators, strict=True):
            assert (a.name, a.module, a.shape) == (b.name, b.module, b.shape)
            assert a.flop == pytest.approx(b.flop)
            assert a.weight_b == pytest.approx(b.weight_b)
            assert a.written_b == pytest.approx(b.written_b)
        assert mine.program.parameter_b == pytest.approx(theirs.program.parameter_b)
        assert mine.program.kv_b == theirs.program.kv_b


def test_every_layer_sums_its_two_results_over_the_devices():
    prefill = tensor_parallel(traced(llama()), 2).phases[0].program

    sums = [each for each in prefill.operators if each.name == "all_reduce"]
    hidden_b = 2 * 64 * 512 * 2
    assert [each.written_b for each in sums] == [hidden_b] * (2 * LAYERS)
    assert len(prefill.live_b) == len(prefill.operators)


def test_what_follows_a_sum_reads_it_and_not_its_summand():
    operators = tensor_parallel(traced(llama()), 2).phases[0].program.operators

    for index, each in enumerate(operators):
        if each.name == "all_reduce":
            later = {value for after in operators[index + 1 :] for value in after.inputs}
            assert each.outputs[0] in later
            assert each.inputs[0] not in later


def test_experts_are_cut_by_features_and_summed_after_them():
    name = "mixtral?hidden_size=256&num_hidden_layers=2&num_attention_heads=4&vocab_size=1000"
    model = traced(f"hf:{name}&num_key_value_heads=4&intermediate_size=512")

    whole, part = (each.phases[0].program for each in (model, tensor_parallel(model, 4)))

    def grouped(program):
        return [each for each in program.operators if each.name == "_grouped_mm"]

    for a, b in zip(grouped(whole), grouped(part), strict=True):
        assert (b.flop, b.weight_b) == (a.flop / 4, a.weight_b / 4)
    sums = [each for each in part.operators if each.name == "all_reduce"]
    assert [each.written_b for each in sums] == [2 * 64 * 256 * 2] * 4


def test_one_device_is_the_model_itself():
    model = traced(llama())

    assert tensor_parallel(model, 1) is model


def test_heads_that_cannot_be_shared_equally_are_refused():
    with pytest.raises(ConfigError, match="num_attention_heads 8, which 3 devices"):
        tensor_parallel(traced(llama()), 3)


def test_a_model_without_a_plan_is_refused():
    model = trace_model("resnet18", batch=1, precision="fp32")

    with pytest.raises(ConfigError, match="no plan"):
        tensor_parallel(model, 2)


def test_a_training_step_is_refused():
    model = trace_model(llama(), batch=1, precision="bf16", training=True, prompt_tokens=16)

    with pytest.raises(ConfigError, match="training"):
        tensor_parallel(model, 2)
