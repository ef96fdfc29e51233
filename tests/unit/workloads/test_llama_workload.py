"""The Llama workload generates what transformers generates, and costs what counting says."""

import resource
import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from joulelab.errors import ConfigError
from joulelab.tracing.kernels import kernels_of, merged
from joulelab.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads import accelerator, generation
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.generation import Generation
from joulelab.workloads.llama import GEOMETRIES, Llama, LlamaSettings, num_parameters

from transformers import LlamaConfig  # isort: skip  # generation makes it importable

CPU = torch.device("cpu")
TINY = LlamaSettings(model="tiny", precision="fp32", prompt_tokens=12, new_tokens=6)
# Sums of the tensors in the published checkpoints.
PUBLISHED_PARAMETERS = {
    "tinyllama": 1_100_048_384,
    "llama-7b": 6_738_415_616,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
}


def tiny(**knobs):
    defaults = {"model": "tiny", "precision": "fp32", "prompt_tokens": 12, "new_tokens": 6}
    return LlamaSettings(**{**defaults, **knobs})


def generation_of(settings):
    with accelerator.seeded(7, CPU):
        network = Llama(settings).network(CPU)
        return network, Generation(network, settings)


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_decode_generates_the_tokens_of_transformers_own_greedy_search(kv_cache, attention):
    settings = tiny(batch=3, kv_cache=kv_cache, attention=attention)
    network, generation = generation_of(settings)
    with torch.inference_mode():
        expected = network.generate(
            generation.prompt,
            attention_mask=torch.ones_like(generation.prompt),
            max_new_tokens=1 + settings.new_tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )[:, settings.prompt_tokens :]

        generation.prefill()
        generation.decode()

    assert generation.tokens.tolist() == expected.tolist()
    assert len(set(generation.tokens.flatten().tolist())) > 1


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_every_decode_starts_from_the_prompts_and_generates_the_same_tokens(kv_cache):
    _, generation = generation_of(tiny(batch=2, kv_cache=kv_cache))
    runs = []

    with torch.inference_mode():
        generation.prefill()
        for _ in range(3):
            generation.tokens[:, 1:] = -1
            generation.decode()
            runs.append(generation.tokens.tolist())

    assert runs[0] == runs[1] == runs[2]


def test_a_prefill_between_two_decodes_changes_nothing():
    _, generation = generation_of(tiny())
    with torch.inference_mode():
        generation.prefill()
        generation.decode()
        first = generation.tokens.tolist()

        generation.prefill()
        generation.decode()

    assert generation.tokens.tolist() == first


def test_preparing_leaves_the_random_generator_as_it_was():
    torch.manual_seed(1)
    expected = torch.rand(3).tolist()
    torch.manual_seed(1)

    Llama(tiny()).prepare()

    assert torch.rand(3).tolist() == expected


class Geometry(SimpleNamespace):
    """A Llama network's sizes by the values of its configuration."""

    @property
    def head_dim(self):
        return self.hidden_size // self.num_attention_heads

    @property
    def num_parameters(self):
        return num_parameters(vars(self))


def geometry_of(model, **changes):
    return Geometry(**{**GEOMETRIES[model], **changes})


@pytest.mark.parametrize(("model", "published"), PUBLISHED_PARAMETERS.items())
def test_a_geometry_counts_the_parameters_of_the_published_network(model, published):
    assert geometry_of(model).num_parameters == published


@pytest.mark.parametrize("model", GEOMETRIES)
def test_the_network_has_the_parameters_and_layers_of_its_geometry(model):
    geometry = geometry_of(model)

    network = Llama(LlamaSettings(model=model)).network(torch.device("meta"))

    assert sum(weights.numel() for weights in network.parameters()) == geometry.num_parameters
    assert len(network.model.layers) == geometry.num_hidden_layers


@cache
def cost_of(settings):
    return cached_cost(Llama(settings))


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Published networks cut to two layers: every layer costs as much as any other."""

    def settings_of(model, **knobs):
        folder = folder_of(tmp_path_factory.getbasetemp() / model, model, num_hidden_layers=2)
        return LlamaSettings(model=folder, batch=2, prompt_tokens=1000, new_tokens=24, **knobs)

    return settings_of


def cached_per_token(geometry):
    """Keys and values that the cache holds for one token of one sequence."""
    return 2 * geometry.num_hidden_layers * geometry.num_key_value_heads * geometry.head_dim


def products_per_token(geometry):
    """Multiply-adds per token outside attention: all weights but embedding, norms and head."""
    norms = (2 * geometry.num_hidden_layers + 1) * geometry.hidden_size
    return geometry.num_parameters - norms - 2 * geometry.vocab_size * geometry.hidden_size


@pytest.mark.parametrize("model", ["tinyllama", "llama-7b", "llama-2-13b", "llama-3-8b"])
def test_prefill_operations_are_those_of_the_closed_form(cut, model):
    settings = cut(model)
    geometry = geometry_of(model, num_hidden_layers=2)

    prefill = cost_of(settings).phase("prefill")

    tokens = settings.batch * settings.prompt_tokens
    linear = 2 * products_per_token(geometry) * tokens
    head = 2 * geometry.vocab_size * geometry.hidden_size * settings.batch  # last token only
    scores = settings.batch * settings.prompt_tokens * (settings.prompt_tokens + 1) / 2
    attention = 4 * geometry.num_hidden_layers * geometry.hidden_size * scores
    assert prefill.flop == pytest.approx(linear + head + attention, rel=0.01)
    on_tensor_cores = sum(k.flop * k.count for k in prefill.kernels if k.pipe == "tensor_bf16")
    assert on_tensor_cores == linear + head + attention
    assert prefill.work == tokens


@pytest.mark.parametrize(
    ("model", "kv_cache", "passes"),
    [("llama-7b", "dynamic", 3), ("llama-3-8b", "dynamic", 3), ("llama-7b", "static", 1)],
)
def test_decode_moves_the_weights_and_the_cache_once_per_step(cut, model, kv_cache, passes):
    settings = cut(model, kv_cache=kv_cache)
    geometry = geometry_of(model, num_hidden_layers=2)

    decode = cost_of(settings).phase("decode")

    embedding = geometry.vocab_size * geometry.hidden_size
    # Concatenation reads the cache, writes it, and attention reads it again; a static cache is
    # read once, in its full length.
    length = 1024 if kv_cache == "static" else 1000 + (24 + 1) / 2
    cached = settings.batch * passes * length * cached_per_token(geometry)
    step_b = 2 * (geometry.num_parameters - embedding + cached)
    assert decode.dram_b == pytest.approx(24 * step_b, rel=0.02)


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_the_cost_of_a_decode_is_the_sum_over_its_steps(kv_cache):
    settings = tiny(new_tokens=9, kv_cache=kv_cache)
    with fake_tensors():
        network = Llama(settings).network(CPU)
        generation = Generation(network, settings)
        generation.prefill()
        stepwise = trace(generation.decode)

    decode = cached_cost(Llama(settings)).phase("decode")

    assert decode.flop == pytest.approx(sum(kernel.flop for kernel in stepwise), rel=1e-9)
    assert decode.dram_b == pytest.approx(sum(kernel.dram_b for kernel in stepwise), rel=1e-9)
    assert decode.num_launches == len(stepwise)


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_the_cost_is_that_of_the_network_that_runs(kv_cache):
    settings = tiny(new_tokens=1, kv_cache=kv_cache)
    _, generation = generation_of(settings)
    real = {
        phase: merged(kernels_of(trace_program(program, network=generation.network)))
        for phase, program in (("prefill", generation.prefill), ("decode", generation.decode))
    }

    cost = cached_cost(Llama(settings))

    assert {phase.phase: phase.kernels for phase in cost.phases} == real


def test_each_layer_multiplies_seven_matrices_and_attends_once(cut):
    layers = 2

    prefill = cost_of(cut("tinyllama")).phase("prefill")

    on_tensor_cores = [kernel for kernel in prefill.kernels if kernel.pipe == "tensor_bf16"]
    counts = {
        name: sum(kernel.count for kernel in on_tensor_cores if kernel.name == name)
        for name in ("gemm", "attention")
    }
    assert counts == {"gemm": 7 * layers + 1, "attention": layers}


def test_both_phases_of_a_13b_network_are_traced_in_seconds_and_megabytes():
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_s = time.process_time()

    Llama(LlamaSettings(model="llama-2-13b", batch=64, prompt_tokens=2048)).cost()

    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert grown_mib < 200
    assert time.process_time() - start_s < 30


def test_the_memory_held_is_weights_and_cache(cut):
    resident_b = cost_of(cut("llama-7b")).resident_b

    weights = geometry_of("llama-7b", num_hidden_layers=2).num_parameters
    assert resident_b == 2 * (weights + 2 * 2 * 4096 * 2 * 1024)


def test_pretrained_weights_of_the_geometry_are_loaded(tmp_path):
    settings = tiny()
    network, generation = generation_of(settings)
    network.save_pretrained(tmp_path)

    loaded = Llama(tiny(weights=str(tmp_path))).network(CPU)

    with torch.inference_mode():
        a = network(generation.prompt).logits
        b = loaded(generation.prompt).logits
    assert torch.equal(a, b)
    assert not loaded.training


def test_weights_of_another_geometry_are_refused_with_what_differs(tmp_path):
    LlamaConfig(**GEOMETRIES["tiny"]).save_pretrained(tmp_path)
    workload = Llama(LlamaSettings(model="tinyllama", weights=str(tmp_path), precision="fp32"))

    with pytest.raises(ConfigError, match=r"hidden_size 64 \(not 2048\)"):
        workload.prepare()


def decode_of(**knobs):
    return cost_of(replace(TINY, **knobs)).phase("decode")


def folder_of(tmp_path, model="tiny", **changes):
    LlamaConfig(**{**GEOMETRIES[model], **changes}).save_pretrained(tmp_path)
    return f"{tmp_path}/"


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_a_context_as_long_as_the_prompt_costs_what_the_prompt_costs(kv_cache):
    plain = decode_of(kv_cache=kv_cache, prompt_tokens=40)

    assert decode_of(kv_cache=kv_cache, context_tokens=40) == plain


def test_a_context_adds_to_a_decode_what_attention_reads_of_it():
    geometry = geometry_of("tiny")

    short, long = (decode_of(precision="bf16", context_tokens=tokens) for tokens in (100, 1100))

    # Products with keys and values, and the cache concatenated (read, written) and read.
    more_flop = 4 * geometry.num_hidden_layers * geometry.hidden_size * 1000
    more_b = 3 * 2 * cached_per_token(geometry) * 1000
    steps = TINY.new_tokens
    products = [
        sum(k.flop * k.count for k in phase.kernels if k.pipe == "tensor_bf16")
        for phase in (short, long)
    ]
    assert products[1] - products[0] == steps * more_flop
    assert long.dram_b - short.dram_b == pytest.approx(steps * more_b, rel=0.01)


def test_a_context_leaves_the_prefill_alone_and_is_held_beside_it():
    plain, with_context = (
        cost_of(settings) for settings in (TINY, replace(TINY, context_tokens=100))
    )

    assert with_context.phase("prefill") == plain.phase("prefill")
    per_token_b = 4 * cached_per_token(geometry_of("tiny"))
    assert with_context.resident_b - plain.resident_b == 100 * per_token_b


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_every_decode_starts_from_the_same_context(kv_cache):
    settings = replace(TINY, batch=2, context_tokens=50, kv_cache=kv_cache)
    with accelerator.seeded(7, CPU), torch.inference_mode():
        running = Generation(Llama(settings).network(CPU), settings)
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
            running = Generation(Llama(settings).network(CPU), settings)
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
def test_quantised_layers_are_held_in_as_many_bits(tmp_path, precision, share):
    geometry = geometry_of("llama-3.2-1b", num_hidden_layers=4)
    folder = folder_of(tmp_path, "llama-3.2-1b", num_hidden_layers=4)
    settings = LlamaSettings(model=folder, precision=precision)
    embedding = geometry.vocab_size * geometry.hidden_size  # stays in 16 bits, as does its twin
    layers = geometry.num_parameters - embedding
    cached = (512 + 64) * cached_per_token(geometry)

    resident_b = cached_cost(Llama(settings)).resident_b

    weights_b = resident_b - 2 * (embedding + cached)
    assert weights_b == pytest.approx(2 * layers * share, rel=0.1)  # scales come on top


def test_a_tied_head_is_counted_and_held_once(cut):
    geometry = geometry_of("llama-3.2-1b", num_hidden_layers=2)

    resident_b = cost_of(cut("llama-3.2-1b")).resident_b

    cached = 2 * 1024 * cached_per_token(geometry)
    assert resident_b == 2 * (geometry.num_parameters + cached)


def test_a_folder_tells_its_own_geometry(tmp_path):
    settings = replace(TINY, model=folder_of(tmp_path, num_hidden_layers=3))

    assert Llama(settings).network(CPU).config.num_hidden_layers == 3
    kernels = cached_cost(Llama(replace(settings, precision="bf16"))).phase("prefill").kernels
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
