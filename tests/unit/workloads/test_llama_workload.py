"""The Llama workload generates what transformers generates, and costs what counting says."""

import resource
import time

import pytest
import torch

from joulelab.errors import ConfigError
from joulelab.estimator.graph.kernels import kernels_of, merged
from joulelab.estimator.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads import accelerator, llama_network
from joulelab.workloads.generation import Generation
from joulelab.workloads.llama import Llama
from joulelab.workloads.llama_geometry import GEOMETRIES
from joulelab.workloads.llama_settings import LlamaSettings

CPU = torch.device("cpu")
# Sums of the tensors in the published checkpoints.
PUBLISHED_PARAMETERS = {
    "tinyllama": 1_100_048_384,
    "llama-7b": 6_738_415_616,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-3-8b": 8_030_261_248,
}


def tiny(**knobs):
    defaults = {"model": "tiny", "precision": "fp32", "prompt_tokens": 12, "new_tokens": 6}
    return LlamaSettings(**{**defaults, **knobs})


def generation_of(settings):
    with accelerator.seeded(7, CPU):
        network = llama_network.random_network(settings, CPU)
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


@pytest.mark.parametrize(("model", "published"), PUBLISHED_PARAMETERS.items())
def test_a_geometry_counts_the_parameters_of_the_published_network(model, published):
    assert GEOMETRIES[model].num_parameters == published


@pytest.mark.parametrize("model", GEOMETRIES)
def test_the_network_has_the_parameters_and_layers_of_its_geometry(model):
    geometry = GEOMETRIES[model]

    network = llama_network.random_network(LlamaSettings(model=model), torch.device("meta"))

    assert sum(weights.numel() for weights in network.parameters()) == geometry.num_parameters
    assert len(network.model.layers) == geometry.num_hidden_layers


def products_per_token(geometry):
    """Multiply-adds per token outside attention: all weights but embedding, norms and head."""
    norms = (2 * geometry.num_hidden_layers + 1) * geometry.hidden_size
    return geometry.num_parameters - norms - 2 * geometry.vocab_size * geometry.hidden_size


@pytest.mark.parametrize("model", ["tinyllama", "llama-7b", "llama-2-13b", "llama-3-8b"])
def test_prefill_operations_are_those_of_the_closed_form(model):
    settings = LlamaSettings(model=model, batch=2, prompt_tokens=512)
    geometry = settings.geometry

    prefill = Llama(settings).cost().phase("prefill")

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
def test_decode_moves_the_weights_and_the_cache_once_per_step(model, kv_cache, passes):
    settings = LlamaSettings(model=model, kv_cache=kv_cache, prompt_tokens=1000, new_tokens=24)
    geometry = settings.geometry

    decode = Llama(settings).cost().phase("decode")

    embedding = geometry.vocab_size * geometry.hidden_size
    # Concatenation reads the cache, writes it, and attention reads it again; a static cache is
    # read once, in its full length.
    length = 1024 if kv_cache == "static" else 1000 + (24 + 1) / 2
    cached = passes * length * geometry.cached_numbers_per_token
    step_b = 2 * (geometry.num_parameters - embedding + cached)
    assert decode.dram_b == pytest.approx(24 * step_b, rel=0.02)


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_the_cost_of_a_decode_is_the_sum_over_its_steps(kv_cache):
    settings = tiny(new_tokens=9, kv_cache=kv_cache)
    with fake_tensors():
        network = llama_network.random_network(settings, CPU)
        generation = Generation(network, settings)
        generation.prefill()
        stepwise = trace(generation.decode)

    decode = Llama(settings).cost().phase("decode")

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

    cost = Llama(settings).cost()

    assert {phase.phase: phase.kernels for phase in cost.phases} == real


def test_each_layer_multiplies_seven_matrices_and_attends_once():
    settings = LlamaSettings(model="tinyllama")

    prefill = Llama(settings).cost().phase("prefill")

    layers = settings.geometry.num_hidden_layers
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


def test_the_memory_held_is_weights_and_cache():
    settings = LlamaSettings(model="llama-7b", batch=8, prompt_tokens=512, new_tokens=64)

    resident_b = Llama(settings).cost().resident_b

    assert resident_b == 2 * (6_738_415_616 + 2 * 32 * 4096 * 8 * 576)


def test_pretrained_weights_of_the_geometry_are_loaded(tmp_path):
    settings = tiny()
    network, generation = generation_of(settings)
    network.save_pretrained(tmp_path)

    loaded = llama_network.pretrained_network(settings, str(tmp_path), CPU)

    with torch.inference_mode():
        a = network(generation.prompt).logits
        b = loaded(generation.prompt).logits
    assert torch.equal(a, b)
    assert not loaded.training


def test_weights_of_another_geometry_are_refused_with_what_differs(tmp_path):
    llama_network.config_of(GEOMETRIES["tiny"]).save_pretrained(tmp_path)
    workload = Llama(LlamaSettings(model="tinyllama", weights=str(tmp_path), precision="fp32"))

    with pytest.raises(ConfigError, match=r"hidden_size 64 \(not 2048\)"):
        workload.prepare()


def test_weights_that_are_not_there_are_refused_with_what_is_allowed(tmp_path):
    workload = Llama(tiny(weights=str(tmp_path / "absent")))

    with pytest.raises(ConfigError, match=r"weights must be a folder.*absent"):
        workload.prepare()
