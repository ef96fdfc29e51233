"""Shapes of Whisper networks, as their published configurations give them."""

from collections.abc import Mapping
from typing import Any

WINDOW_S = 30.0
"""Audio that the encoder takes at once, padded if there is less (arXiv:2212.04356, section 2.2)."""

START_TOKENS = 4
"""Start, language, task and no-timestamps: what the decoder reads first (ibid., figure 1)."""

MOST_TOKENS = 448
"""Positions of the decoder: ``max_target_positions`` of every published configuration."""


def _whisper(width: int, layers: int, heads: int, **others: Any) -> Mapping[str, Any]:
    sides = ("encoder", "decoder")
    return {
        "d_model": width,
        **{f"{side}_layers": layers for side in sides},
        **{f"{side}_attention_heads": heads for side in sides},
        **{f"{side}_ffn_dim": 4 * width for side in sides},
        "max_source_positions": 1500,
        "max_target_positions": MOST_TOKENS,
        "vocab_size": 51865,
        **others,
    }


GEOMETRIES: Mapping[str, Mapping[str, Any]] = {
    # For tests: one layer, and tokens of no language.
    "toy": _whisper(
        *(64, 1, 2),
        vocab_size=128,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 126),
        decoder_start_token_id=127,
    ),
    # openai/whisper-* (arXiv:2212.04356, table 1).
    "tiny": _whisper(384, 4, 6),
    "base": _whisper(512, 6, 8),
    "small": _whisper(768, 12, 12),
    "medium": _whisper(1024, 24, 16),
    "large-v3": _whisper(1280, 32, 20, num_mel_bins=128, vocab_size=51866),
}
"""What to give to ``WhisperConfig`` of transformers, by name."""
