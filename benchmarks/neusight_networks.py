"""The networks of NeuSight's published latencies (Lee, Phanishayee, Mahajan, ASPLOS 2025).

As its scripts built them: attention written out, all logits, one forward pass. Geometries are those
of scripts/asplos/data/DLmodel_configs; "GPT3-XL" is 3,072 wide there.
"""

from typing import Any, ClassVar

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification


class _Network(torch.nn.Module):
    """One forward pass over ``tokens`` tokens of each sequence."""

    unit = "sequence"
    tokens: ClassVar[int] = 2048
    model_type: ClassVar[str] = "gpt2"
    values: ClassVar[dict[str, Any]] = {}
    auto: ClassVar[Any] = AutoModelForCausalLM

    def __init__(self) -> None:
        super().__init__()
        config = AutoConfig.for_model(self.model_type, **self.values)
        self.network = self.auto.from_config(config, attn_implementation="eager")

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(input_ids=input_ids).logits
        return logits

    @classmethod
    def example_inputs(cls, batch: int) -> torch.Tensor:
        """Return tokens as the scripts had them."""
        return torch.ones(batch, cls.tokens, dtype=torch.long)


class BertLarge(_Network):
    """BERT-Large, with a head that classifies sequences."""

    tokens = 512
    model_type = "bert"
    values: ClassVar[dict[str, Any]] = {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    }
    auto = AutoModelForSequenceClassification


class Gpt2Large(_Network):
    """GPT2-Large."""

    tokens = 1024
    values: ClassVar[dict[str, Any]] = {"n_embd": 1280, "n_head": 20, "n_layer": 36}


class Gpt3Xl(_Network):
    """GPT3-XL of NeuSight."""

    values: ClassVar[dict[str, Any]] = {
        "n_embd": 3072,
        "n_head": 24,
        "n_layer": 24,
        "n_positions": 2048,
    }


class Gpt327(_Network):
    """GPT3-2.7B."""

    values: ClassVar[dict[str, Any]] = {
        "n_embd": 2560,
        "n_head": 32,
        "n_layer": 32,
        "n_positions": 2048,
    }


class Opt13(_Network):
    """OPT-1.3B."""

    model_type = "opt"
    values: ClassVar[dict[str, Any]] = {
        "hidden_size": 2048,
        "ffn_dim": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "word_embed_proj_dim": 2048,
        "vocab_size": 50272,
    }
