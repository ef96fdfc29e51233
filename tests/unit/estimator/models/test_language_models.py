"""Language and speech models: prefill, decode, and the cache between them."""

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models import find_model, trace_model
from joulelab.tracing.program import MATRIX_KINDS

WIDTH, LAYERS, HEADS, FEED_FORWARD, VOCABULARY = 256, 2, 4, 512, 1000
SMALL = (
    f"hidden_size={WIDTH}&num_hidden_layers={LAYERS}&num_attention_heads={HEADS}"
    f"&intermediate_size={FEED_FORWARD}&vocab_size={VOCABULARY}"
)
LLAMA = f"hf:llama?{SMALL}&num_key_value_heads={HEADS}"
LAYER_WEIGHTS = 4 * WIDTH**2 + 3 * WIDTH * FEED_FORWARD
MATRIX_WEIGHTS = LAYERS * LAYER_WEIGHTS


def matrix_flop(program):
    return sum(each.flop for each in program.operators if each.kind in MATRIX_KINDS)


def phases(name, **options):
    model = trace_model(name, **{"batch": 1, "precision": "fp16", **options})
    return {phase.phase: phase for phase in model.phases}


def test_a_prefill_costs_what_its_geometry_says():
    tokens, batch = 48, 3
    prefill = phases(LLAMA, batch=batch, prompt_tokens=tokens, new_tokens=1)["prefill"]

    scores = tokens * (tokens + 1) // 2  # a causal kernel computes half of the square
    attention = LAYERS * 2 * 2 * batch * scores * WIDTH
    products = 2 * batch * tokens * MATRIX_WEIGHTS
    head = 2 * batch * WIDTH * VOCABULARY  # of the last token alone
    assert matrix_flop(prefill.program) == products + attention + head
    assert prefill.work == batch * tokens


def test_a_decode_is_the_exact_mean_of_its_steps():
    tokens, steps, batch = 32, 9, 2
    decode = phases(LLAMA, batch=batch, prompt_tokens=tokens, new_tokens=steps)["decode"]

    attended = sum(tokens + step + 1 for step in range(steps)) / steps
    attention = LAYERS * 2 * 2 * batch * attended * WIDTH
    products = 2 * batch * (MATRIX_WEIGHTS + WIDTH * VOCABULARY)
    assert matrix_flop(decode.program) == products + attention
    assert (decode.count, decode.work) == (steps, batch * steps)


def test_the_cache_of_a_decode_is_that_of_its_last_step():
    tokens, steps, batch = 32, 9, 2
    by_phase = phases(LLAMA, batch=batch, prompt_tokens=tokens, new_tokens=steps)

    cached_numbers = 2 * LAYERS * WIDTH * batch * (tokens + steps - 1)
    assert by_phase["prefill"].program.kv_b == 0
    assert by_phase["decode"].program.kv_b == 2 * cached_numbers


def test_shared_key_value_heads_shrink_the_cache():
    full, shared = (
        phases(f"hf:llama?{SMALL}&num_key_value_heads={heads}")["decode"].program.kv_b
        for heads in (HEADS, HEADS // 2)
    )

    assert full == 2 * shared


def test_a_decode_of_one_step_and_a_model_that_only_reads():
    assert phases(LLAMA, new_tokens=1)["decode"].count == 1
    assert set(phases(LLAMA, new_tokens=0)) == {"prefill"}


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("tinyllama", 1_100_048_384),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
    ],
)
def test_presets_hold_the_published_number_of_weights(name, published):
    by_phase = phases(name, prompt_tokens=8, new_tokens=0)

    buffers_b = 2 * 2 * 4 * 64  # frequencies of the position embedding, kept twice
    held_b = by_phase["prefill"].program.parameter_b
    assert held_b == pytest.approx(2 * published, abs=buffers_b)


def test_precisions_of_one_traced_format_share_the_trace():
    fp16, int8 = (phases(LLAMA, precision=p)["decode"].program for p in ("fp16", "int8"))

    products = [each for each in int8.operators if each.kind == "gemm" and each.weight_b]
    assert fp16.flop == int8.flop
    assert {each.pipe for each in products} == {"tensor_int8"}
    assert sum(each.weight_b for each in products) == sum(
        each.weight_b / 2 for each in fp16.operators if each.kind == "gemm"
    )


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_experts_are_counted_for_the_tokens_sent_to_them(precision):
    experts, chosen, tokens = 8, 2, 64
    name = f"hf:mixtral?{SMALL}&num_key_value_heads={HEADS}"
    prefill = phases(name, precision=precision, prompt_tokens=tokens, new_tokens=1)["prefill"]

    grouped = [each for each in prefill.program.operators if each.name == "_grouped_mm"]
    assert sum(each.flop for each in grouped) == (
        LAYERS * 2 * tokens * chosen * 3 * WIDTH * FEED_FORWARD
    )
    item_b = 4 if precision == "fp32" else 2
    assert sum(each.weight_b for each in grouped) == (
        LAYERS * experts * 3 * WIDTH * FEED_FORWARD * item_b
    )


def test_a_step_of_one_sequence_reads_only_the_experts_that_it_uses():
    chosen = 2
    decode = phases(f"hf:mixtral?{SMALL}&num_key_value_heads={HEADS}")["decode"]

    grouped = [each for each in decode.program.operators if each.name == "_grouped_mm"]
    assert sum(each.weight_b for each in grouped) == LAYERS * chosen * 3 * WIDTH * FEED_FORWARD * 2


def test_whisper_encodes_thirty_seconds_and_then_generates():
    by_phase = phases("whisper-tiny", batch=2, new_tokens=10)

    assert list(by_phase) == ["encode", "prompt", "decode"]
    assert {phase.work for phase in by_phase.values()} == {60.0}
    assert by_phase["decode"].count == 10
    width, layers, heard, own = 384, 4, 1500, 4 + 10 - 1
    cached_numbers = 2 * layers * width * 2 * (heard + own)
    assert by_phase["decode"].program.kv_b == 2 * cached_numbers


def test_more_tokens_than_the_network_knows_positions_are_refused():
    with pytest.raises(ConfigError, match="at most 2048"):
        phases("tinyllama", prompt_tokens=2048, new_tokens=1)


def test_an_unknown_option_of_a_configuration_is_answered_with_close_ones():
    with pytest.raises(UnknownNameError, match="hidden_size"):
        find_model("hf:llama?hidden_sizes=128")


def test_a_type_that_cannot_be_fed_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"path\.py:Class"):
        find_model("hf:timesformer")


@pytest.mark.parametrize("value", ["abc", "64.5", "", "-1"])
def test_a_value_that_its_configuration_cannot_take_is_refused_by_name(value):
    """Transformers' checks raise errors of their own, which came as tracebacks; -1 was taken."""
    with pytest.raises(ConfigError, match="num_hidden_layers"):
        find_model(f"hf:llama?num_hidden_layers={value}")


def test_a_training_step_predicts_every_token_of_the_prompt():
    tokens = 32
    step = phases(LLAMA, prompt_tokens=tokens, training=True)["train"]

    forward = [each for each in step.program.operators if each.stage == "forward"]
    products = sum(each.flop for each in forward if each.kind == "gemm")
    assert products == 2 * tokens * (MATRIX_WEIGHTS + WIDTH * VOCABULARY)
    assert step.work == tokens
