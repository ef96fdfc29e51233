"""What transformers knows about cutting a network over several devices."""

from collections.abc import Mapping
from typing import Any

from joulelab.errors import ConfigError

_CUT = {
    "colwise": "colwise",
    "rowwise": "rowwise",
    "moe_tp_experts": "experts",
}
# What is divided among the devices, in a configuration's own words.
_DIVIDED = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
)


def sharding_plan(config: Any) -> Mapping[str, str]:
    """Return the plan of a configuration of transformers, as in ``Model.sharding_plan``."""
    plan = getattr(config, "base_model_tp_plan", None) or {}
    return {pattern: _CUT[style] for pattern, style in plan.items() if style in _CUT}


def check_shards(config: Any, num_devices: int, title: str) -> None:
    """Check that ``num_devices`` divide what the plan of ``config`` cuts.

    Raises:
        ConfigError: If one of them does not divide it.
    """
    for name in _DIVIDED:
        size = getattr(config, name, None)
        if isinstance(size, int) and size % num_devices:
            raise ConfigError(
                f"{title} has {name} {size}, which {num_devices} devices cannot share equally; "
                f"use a number that divides {size}."
            )
