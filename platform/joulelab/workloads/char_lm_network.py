"""The network that writes a generated language, and how it is trained.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch

from joulelab.workloads import hub
from joulelab.workloads.char_lm import MAX_TOKENS, CharLmSettings
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.generated_language import text
from joulelab.workloads.training import Recipe, load_trained

from transformers import LlamaConfig, LlamaForCausalLM  # isort: skip  # hub makes it importable

_BATCH = 12
_NUM_WORDS = 60_000
_SEED = 1  # of the text that it learns from


def recipe() -> Recipe:
    """Return how the network is trained: to tell the next byte of a text of the language."""
    read = torch.frombuffer(bytearray(text(_NUM_WORDS, _SEED).encode()), dtype=torch.uint8).long()
    offsets = torch.arange(MAX_TOKENS)

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        starts = torch.randint(len(read) - MAX_TOKENS, (_BATCH, 1), generator=generator)
        tokens = read[starts + offsets]
        result: torch.Tensor = network(input_ids=tokens, labels=tokens).loss
        return result

    return Recipe(
        name="char-lm",
        build=lambda: _random(torch.float32, torch.device("cpu")),
        loss=loss,
        num_steps=1200,
        peak_rate=4e-3,
        sources=("workloads/char_lm_network.py", "workloads/generated_language.py"),
    )


def load_network(settings: CharLmSettings, device: torch.device) -> Any:
    """Return the network on ``device`` in the format of the precision."""
    network = _random(storage_dtype(settings.precision), device)
    if settings.weights is not None:
        load_trained(network, recipe())
    return network


def _random(dtype: torch.dtype, device: torch.device) -> Any:
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=256,
        max_position_embeddings=MAX_TOKENS,
    )
    return hub.random_model(LlamaForCausalLM, config, dtype, device)
