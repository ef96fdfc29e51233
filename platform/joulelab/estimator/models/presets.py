"""Published networks as configurations of transformers.

Each entry names the type of its configuration, and those of its values that differ from that
type's defaults. The values are those of the checkpoint's ``config.json`` on the hub, or of the
paper, named with each.
"""

from collections.abc import Mapping
from typing import Any

from joulelab.workloads.llama_geometry import GEOMETRIES, LlamaGeometry
from joulelab.workloads.whisper_geometry import GEOMETRIES as WHISPER_GEOMETRIES


def _llama(geometry: LlamaGeometry) -> tuple[str, Mapping[str, Any]]:
    return "llama", geometry.config_values


def _rope(theta: float) -> Mapping[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _decoder(
    model_type: str, widths: tuple[int, int, int], heads: tuple[int, int], **others: Any
) -> tuple[str, Mapping[str, Any]]:
    """Return a decoder of (hidden, feed-forward, layers) and (query, key-value) heads."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers")
    head_names = ("num_attention_heads", "num_key_value_heads")
    values = {**dict(zip(names, widths, strict=True)), **dict(zip(head_names, heads, strict=True))}
    return model_type, {**values, **others}


def _encoder(
    model_type: str, widths: tuple[int, int, int], heads: int, **others: Any
) -> tuple[str, Mapping[str, Any]]:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers")
    values = dict(zip(names, widths, strict=True))
    return model_type, {**values, "num_attention_heads": heads, **others}


def _gpt2(width: int, layers: int, heads: int) -> tuple[str, Mapping[str, Any]]:
    return "gpt2", {"n_embd": width, "n_layer": layers, "n_head": heads}


_QWEN = {"max_position_embeddings": 32768, "rope_parameters": _rope(1000000.0)}

PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: _llama(geometry) for name, geometry in GEOMETRIES.items() if name != "tiny"},
    # arXiv:2407.21783, table 3.
    "llama-3-70b": _decoder(
        *("llama", (8192, 28672, 80), (64, 8)),
        vocab_size=128256,
        max_position_embeddings=8192,
        rope_parameters=_rope(500000.0),
    ),
    # mistralai/Mistral-7B-v0.1 (arXiv:2310.06825, table 1).
    "mistral-7b": _decoder("mistral", (4096, 14336, 32), (32, 8), vocab_size=32000),
    # mistralai/Mixtral-8x7B-v0.1 (arXiv:2401.04088, table 1).
    "mixtral-8x7b": _decoder(
        *("mixtral", (4096, 14336, 32), (32, 8)),
        vocab_size=32000,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=32768,
        rope_parameters=_rope(1000000.0),
    ),
    # Qwen/Qwen2.5-0.5B and Qwen2.5-7B (arXiv:2412.15115).
    "qwen2.5-0.5b": _decoder(
        "qwen2", (896, 4864, 24), (14, 2), vocab_size=151936, tie_word_embeddings=True, **_QWEN
    ),
    "qwen2.5-7b": _decoder("qwen2", (3584, 18944, 28), (28, 4), vocab_size=152064, **_QWEN),
    # Qwen/Qwen3-8B (arXiv:2505.09388).
    "qwen3-8b": _decoder(
        "qwen3", (4096, 12288, 36), (32, 8), vocab_size=151936, head_dim=128, **_QWEN
    ),
    # The four sizes of openai-community/gpt2.
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    # google-bert/bert-base-uncased and bert-large-uncased (arXiv:1810.04805).
    "bert-base": _encoder("bert", (768, 3072, 12), 12),
    "bert-large": _encoder("bert", (1024, 4096, 24), 16),
    # google/vit-base-patch16-224 and vit-large-patch16-224 (arXiv:2010.11929, table 1).
    "vit-base": _encoder("vit", (768, 3072, 12), 12),
    "vit-large": _encoder("vit", (1024, 4096, 24), 16),
    # openai/whisper-*; large is large-v3.
    **{
        f"whisper-{name.removesuffix('-v3')}": ("whisper", values)
        for name, values in WHISPER_GEOMETRIES.items()
        if name != "toy"
    },
}
"""Configurations by name: the type, and what differs from its defaults."""
