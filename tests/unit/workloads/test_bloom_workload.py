"""The BLOOM workload generates what transformers generates, and costs what counting says."""

import pytest
import torch

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads import accelerator
from joulelab.workloads.generation import Generation
from joulelab.workloads.language import BLOOM_GEOMETRIES, Bloom, BloomSettings

CPU = torch.device("cpu")
# Sums of the tensors in the published checkpoints.
PUBLISHED_PARAMETERS = {
    "bloom-560m": 559_214_592,
    "bloom-1b1": 1_065_314_304,
    "bloom-1b7": 1_722_408_960,
    "bloom-3b": 3_002_557_440,
    "bloom-7b1": 7_069_016_064,
}


@pytest.mark.parametrize(("model", "published"), PUBLISHED_PARAMETERS.items())
def test_the_network_has_the_parameters_of_the_published_one(model, published):
    network = Bloom(BloomSettings(model=model)).network(torch.device("meta"))

    assert sum(weights.numel() for weights in network.parameters()) == published


@pytest.mark.parametrize("kv_cache", ["dynamic", "static"])
def test_decode_generates_the_tokens_of_transformers_own_greedy_search(kv_cache):
    settings = BloomSettings(
        model="tiny", batch=2, precision="fp32", prompt_tokens=9, new_tokens=5, kv_cache=kv_cache
    )
    with accelerator.seeded(7, CPU):
        generation = Generation(Bloom(settings).network(CPU), settings)
    with torch.inference_mode():
        expected = generation.network.generate(
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


def test_prefill_operations_are_those_of_the_closed_form():
    settings = BloomSettings(model="tiny", batch=2, prompt_tokens=512)

    prefill = Bloom(settings).cost().phase("prefill")

    width, layers, _ = BLOOM_GEOMETRIES["tiny"]
    tokens = 2 * 512
    linear = 2 * tokens * layers * 12 * width**2
    head = 2 * 2 * 256 * width  # last token only
    attention = 4 * layers * width * 2 * 512**2  # the library masks what is computed
    counted = sum(k.flop * k.count for k in prefill.kernels if k.pipe == "tensor_bf16")
    assert counted == linear + head + attention
    assert prefill.work == tokens


def test_the_memory_held_is_weights_and_cache():
    workload = Bloom(BloomSettings(model="tiny", batch=4, prompt_tokens=100, new_tokens=28))
    network = workload.network(torch.device("meta"))

    resident_b = workload.cost().resident_b

    weights = sum(each.numel() for each in network.parameters())
    assert resident_b == 2 * (weights + 2 * 2 * 32 * 4 * 128)


def test_bad_knobs_are_refused_with_what_is_allowed():
    with pytest.raises(ConfigError, match=r"prompt_tokens \+ new_tokens must be at most 2048"):
        BloomSettings(prompt_tokens=2040, new_tokens=9)
    with pytest.raises(UnknownNameError, match="bloom-560m"):
        BloomSettings(model="bloom-560")
