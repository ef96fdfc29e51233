"""Llama's contexts, compiled steps, quantised layers, and geometries from elsewhere."""

from dataclasses import replace

import pytest
import torch

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads import accelerator, generation, llama_network
from joulelab.workloads.generation import Generation
from joulelab.workloads.llama import Llama
from joulelab.workloads.llama_geometry import GEOMETRIES
from joulelab.workloads.llama_settings import LlamaSettings

CPU = torch.device("cpu")
TINY = LlamaSettings(model="tiny", precision="fp32", prompt_tokens=12, new_tokens=6)


def decode_of(**knobs):
    return Llama(replace(TINY, **knobs)).cost().phase("decode")


def folder_of(tmp_path, **changes):
    geometry = replace(GEOMETRIES["tiny"], **changes)
    llama_network.config_of(geometry).save_pretrained(tmp_path)
    return f"{tmp_path}/"


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_a_context_as_long_as_the_prompt_costs_what_the_prompt_costs(kv_cache):
    plain = decode_of(kv_cache=kv_cache, prompt_tokens=40)

    assert decode_of(kv_cache=kv_cache, context_tokens=40) == plain


def test_a_context_adds_to_a_decode_what_attention_reads_of_it():
    geometry = TINY.geometry

    short, long = (decode_of(precision="bf16", context_tokens=tokens) for tokens in (100, 1100))

    # Products with keys and values, and the cache concatenated (read, written) and read.
    more_flop = 4 * geometry.num_hidden_layers * geometry.hidden_size * 1000
    more_b = 3 * 2 * geometry.cached_numbers_per_token * 1000
    steps = TINY.new_tokens
    products = [
        sum(k.flop * k.count for k in phase.kernels if k.pipe == "tensor_bf16")
        for phase in (short, long)
    ]
    assert products[1] - products[0] == steps * more_flop
    assert long.dram_b - short.dram_b == pytest.approx(steps * more_b, rel=0.01)


def test_a_context_leaves_the_prefill_alone_and_is_held_beside_it():
    plain, with_context = (
        Llama(settings).cost() for settings in (TINY, replace(TINY, context_tokens=100))
    )

    assert with_context.phase("prefill") == plain.phase("prefill")
    per_token_b = 4 * TINY.geometry.cached_numbers_per_token
    assert with_context.resident_b - plain.resident_b == 100 * per_token_b


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_every_decode_starts_from_the_same_context(kv_cache):
    settings = replace(TINY, batch=2, context_tokens=50, kv_cache=kv_cache)
    with accelerator.seeded(7, CPU), torch.inference_mode():
        running = Generation(llama_network.random_network(settings, CPU), settings)
        running.prefill()
        running.decode()
        first = running.tokens.tolist()
        start = running.cache.layers[0].keys[:, :, :50].clone()

        running.prefill()
        running.decode()

    assert running.tokens.tolist() == first
    assert torch.equal(running.cache.layers[0].keys[:, :, :50], start)
    assert start.std() > 0.5  # contents are random numbers, not zeros


def test_compiled_steps_generate_the_same_tokens_from_one_compilation(monkeypatch):
    monkeypatch.setattr(generation, "_COMPILER", {"backend": "eager"})
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    tokens = {}

    for is_compiled in (False, True):
        settings = replace(TINY, batch=2, kv_cache="static", compile=is_compiled)
        with accelerator.seeded(7, CPU):
            running = Generation(llama_network.random_network(settings, CPU), settings)
        with torch.inference_mode():
            for _ in range(3):
                running.prefill()
                running.decode()
                tokens.setdefault(is_compiled, running.tokens.tolist())
                assert running.tokens.tolist() == tokens[False]

    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_compiling_fuses_launches_and_moves_fewer_bytes_for_the_same_operations():
    eager, compiled = (decode_of(kv_cache="static", compile=flag) for flag in (False, True))

    assert compiled.flop == pytest.approx(eager.flop)
    assert compiled.num_launches < eager.num_launches / 2
    assert (compiled.host_calls, eager.num_graphs) == (0, 0)
    assert compiled.num_graphs == TINY.new_tokens
    assert eager.host_calls > eager.num_launches
    assert compiled.dram_b < eager.dram_b


def test_a_cache_that_grows_is_not_compiled():
    with pytest.raises(ConfigError, match=r"compile needs kv_cache static, got dynamic"):
        replace(TINY, compile=True)


@pytest.mark.parametrize(("precision", "share"), [("int8", 1 / 2), ("int4", 1 / 4), ("fp8", 1 / 2)])
def test_quantised_layers_are_held_in_as_many_bits(precision, share):
    settings = LlamaSettings(model="llama-3.2-1b", precision=precision)
    geometry = settings.geometry
    embedding = geometry.vocab_size * geometry.hidden_size  # stays in 16 bits, as does its twin
    layers = geometry.num_parameters - embedding
    cached = (512 + 64) * geometry.cached_numbers_per_token

    resident_b = Llama(settings).cost().resident_b

    weights_b = resident_b - 2 * (embedding + cached)
    assert weights_b == pytest.approx(2 * layers * share, rel=0.1)  # scales come on top


@pytest.mark.parametrize(
    ("model", "published"), [("llama-3.2-1b", 1_235_814_400), ("llama-3.2-3b", 3_212_749_824)]
)
def test_a_tied_head_is_counted_and_held_once(model, published):
    settings = LlamaSettings(model=model)

    resident_b = Llama(settings).cost().resident_b

    assert settings.geometry.num_parameters == published
    cached = (512 + 64) * settings.geometry.cached_numbers_per_token
    assert resident_b == 2 * (published + cached)


def test_a_folder_tells_its_own_geometry(tmp_path):
    settings = replace(TINY, model=folder_of(tmp_path, num_hidden_layers=3))

    assert llama_network.random_network(settings, CPU).config.num_hidden_layers == 3
    kernels = Llama(replace(settings, precision="bf16")).cost().phase("prefill").kernels
    products = [k.count for k in kernels if k.name == "gemm" and k.pipe == "tensor_bf16"]
    assert sum(products) == 7 * 3 + 1


def test_a_folders_sequences_are_as_long_as_it_says(tmp_path):
    model = folder_of(tmp_path, max_position_embeddings=16)
    workload = Llama(replace(TINY, model=model))

    with pytest.raises(ConfigError, match=r"prompt_tokens \+ new_tokens must be at most 16 for"):
        workload.prepare()


def test_a_folder_that_is_not_there_is_refused_in_one_line(tmp_path):
    workload = Llama(replace(TINY, model=f"{tmp_path}/absent"))

    with pytest.raises(ConfigError, match=r"absent.*hf auth login") as caught:
        workload.prepare()

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"model": "tiny", "context_tokens": 2047}, r"context_tokens \+ new_tokens must be at"),
        ({"context_tokens": 0}, r"context_tokens must be a whole number of at least 1, got 0"),
        ({"compile": "yes"}, r"compile must be true or false"),
        ({"batch": 0}, r"batch must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_knobs_are_refused_with_what_is_allowed(knobs, said):
    with pytest.raises(ConfigError, match=said):
        LlamaSettings(**knobs)


def test_an_unknown_model_is_refused_with_the_closest():
    with pytest.raises(UnknownNameError, match=r"llama-3\.2-1b"):
        LlamaSettings(model="llama-3.2-1")
