"""Shapes of published Llama networks, and what follows from them by counting."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaGeometry:
    """The shape of a Llama network; field names are those of a checkpoint's ``config.json``.

    Attributes:
        hidden_size: Width of the residual stream.
        intermediate_size: Width of the gated feed-forward layer.
        num_hidden_layers: Decoder layers.
        num_attention_heads: Query heads.
        num_key_value_heads: Key and value heads; fewer than query heads if they are shared.
        vocab_size: Tokens that the network knows.
        max_position_embeddings: Longest sequence that it was trained on.
        rms_norm_eps: Guard of the normalisation against division by zero.
        rope_theta: Base of the rotary position embedding.
        rope_factor: How far Llama 3.1 and its successors stretch that embedding beyond the
            ``original_max_position_embeddings`` of Llama 3; ``None`` leaves it as it is.
        tie_word_embeddings: Whether the output head is the embedding.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float = 10000.0
    rope_factor: float | None = None
    tie_word_embeddings: bool = False

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def num_parameters(self) -> int:
        """Weights of the network, embedding and output head included."""
        attention = (
            2
            * self.hidden_size
            * (self.num_attention_heads + self.num_key_value_heads)
            * self.head_dim
        )
        feed_forward = 3 * self.hidden_size * self.intermediate_size
        norms = 2 * self.hidden_size
        layers = self.num_hidden_layers * (attention + feed_forward + norms)
        embeddings = 1 if self.tie_word_embeddings else 2
        return layers + embeddings * self.vocab_size * self.hidden_size + self.hidden_size

    @property
    def cached_numbers_per_token(self) -> int:
        """Keys and values that the cache holds for one token of one sequence."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim

    @property
    def config_values(self) -> Mapping[str, Any]:
        """The values of its configuration in transformers."""
        values = asdict(self)
        rope = {"rope_type": "default", "rope_theta": values.pop("rope_theta")}
        factor = values.pop("rope_factor")
        if factor is not None:
            rope |= {"rope_type": "llama3", "factor": factor, **_LLAMA_3_ROPE}
        return {**values, "rope_parameters": rope}


# config.json of Llama 3.1 and 3.2, "rope_scaling".
_LLAMA_3_ROPE = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}

GEOMETRIES: dict[str, LlamaGeometry] = {
    # For tests and for a first try on a CPU; no published network.
    "tiny": LlamaGeometry(
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
    ),
    # config.json of TinyLlama/TinyLlama-1.1B-Chat-v1.0 (arXiv:2401.02385, table 2).
    "tinyllama": LlamaGeometry(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
    ),
    # config.json of huggyllama/llama-7b (arXiv:2302.13971, table 2).
    "llama-7b": LlamaGeometry(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
        vocab_size=32000,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
    ),
    # config.json of meta-llama/Llama-2-7b-hf (arXiv:2307.09288).
    "llama-2-7b": LlamaGeometry(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
        vocab_size=32000,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
    ),
    # config.json of meta-llama/Llama-2-13b-hf (arXiv:2307.09288).
    "llama-2-13b": LlamaGeometry(
        hidden_size=5120,
        intermediate_size=13824,
        num_hidden_layers=40,
        num_attention_heads=40,
        num_key_value_heads=40,
        vocab_size=32000,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
    ),
    # config.json of meta-llama/Meta-Llama-3-8B (arXiv:2407.21783, table 3).
    "llama-3-8b": LlamaGeometry(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
    ),
    # config.json of meta-llama/Llama-3.2-1B.
    "llama-3.2-1b": LlamaGeometry(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        rope_factor=32.0,
        tie_word_embeddings=True,
    ),
    # config.json of meta-llama/Llama-3.2-3B.
    "llama-3.2-3b": LlamaGeometry(
        hidden_size=3072,
        intermediate_size=8192,
        num_hidden_layers=28,
        num_attention_heads=24,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        rope_factor=32.0,
        tie_word_embeddings=True,
    ),
}
