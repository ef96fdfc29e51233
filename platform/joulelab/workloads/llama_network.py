"""A Llama network of transformers, with random or pretrained weights, and greedy generation.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict

import torch

from joulelab.errors import ConfigError
from joulelab.estimator.torchvision_shim import ensure_torchvision
from joulelab.workloads.accelerator import DTYPES
from joulelab.workloads.llama_geometry import LlamaGeometry
from joulelab.workloads.llama_settings import LlamaSettings

ensure_torchvision()  # transformers imports it

from transformers import (  # noqa: E402
    AutoConfig,
    AutoModelForCausalLM,
    Cache,
    DynamicCache,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    StaticCache,
)
from transformers.cache_utils import StaticLayer  # noqa: E402

_SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size"),
)


def config_of(geometry: LlamaGeometry) -> LlamaConfig:
    """Return the transformers configuration of ``geometry``."""
    values = asdict(geometry)
    rope = {"rope_type": "default", "rope_theta": values.pop("rope_theta")}
    return LlamaConfig(**values, rope_parameters=rope)


def random_network(settings: LlamaSettings, device: torch.device) -> PreTrainedModel:
    """Make a network with normally distributed weights, directly on ``device``."""
    with device:
        network: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config_of(settings.geometry),
            dtype=DTYPES[settings.precision],
            attn_implementation=settings.attention,
        )
    network.train(mode=False)
    return network


def pretrained_network(
    settings: LlamaSettings, weights: str, device: torch.device
) -> PreTrainedModel:
    """Load the network in the folder or of the hub id ``weights`` onto ``device``.

    Raises:
        ConfigError: If it cannot be read, or is not of the geometry in ``settings``.
    """
    with _reading(weights):
        config = AutoConfig.from_pretrained(weights)
    _require_geometry(settings.geometry, config, weights)
    with _reading(weights):
        network: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            weights,
            dtype=DTYPES[settings.precision],
            attn_implementation=settings.attention,
        )
    network.train(mode=False)
    network.to(device)  # type: ignore[arg-type]
    return network


class Generation:
    """Greedy generation from random prompts of equal length, on a key-value cache.

    No step waits for the device: each next token stays on it.

    Args:
        network: The network.
        settings: Batch, lengths and kind of cache.
        seed: Seed of the prompts.
    """

    def __init__(self, network: PreTrainedModel, settings: LlamaSettings, *, seed: int = 0) -> None:
        self._network = network
        self._settings = settings
        self._cache: Cache = self._new_cache()
        device = network.device
        self.prompt = torch.randint(
            network.config.vocab_size,
            (settings.batch, settings.prompt_tokens),
            generator=torch.Generator(device).manual_seed(seed),
            device=device,
        )
        """Token ids of the prompts, shape (batch, prompt_tokens)."""
        self.tokens = torch.zeros(
            settings.batch, 1 + settings.new_tokens, dtype=torch.long, device=device
        )
        """Generated token ids: that of the prefill, then those of the decode."""

    @property
    def cache(self) -> Cache:
        """Keys and values of the tokens read so far."""
        return self._cache

    def prefill(self) -> None:
        """Read the prompts into an empty cache and generate the first token of each."""
        self._cache = self._new_cache()  # frees the old one first: there is room for one
        self._forward(self.prompt, into=0)

    def decode(self) -> None:
        """Generate the tokens after the first, one at a time, from the prefilled cache."""
        self.rewind()
        for index in range(self._settings.new_tokens):
            self.step(index)

    def step(self, index: int) -> None:
        """Read the generated token ``index`` and generate the next."""
        self._forward(self.tokens[:, index : index + 1], into=index + 1)

    def rewind(self) -> None:
        """Make the cache forget all but the prompts."""
        for layer in self._cache.layers:
            if isinstance(layer, StaticLayer):
                layer.cumulative_length.fill_(self._settings.prompt_tokens)
        if isinstance(self._cache, DynamicCache):
            grown = self._cache.get_seq_length() - self._settings.prompt_tokens
            self._cache.crop(-grown)

    def lengthen(self, num_tokens: int) -> None:
        """Append ``num_tokens`` tokens of undefined content to the cache, without computing."""
        geometry = self._settings.geometry
        shape = (self._settings.batch, geometry.num_key_value_heads, num_tokens, geometry.head_dim)
        content = torch.empty(shape, dtype=self._network.dtype, device=self._network.device)
        for layer_index in range(geometry.num_hidden_layers):
            self._cache.update(content, content, layer_index)

    def _new_cache(self) -> Cache:
        config = self._network.config
        if self._settings.kv_cache == "static":
            length = self._settings.prompt_tokens + self._settings.new_tokens
            return StaticCache(config=config, max_cache_len=length)
        return DynamicCache(config=config)

    def _forward(self, token_ids: torch.Tensor, *, into: int) -> None:
        output = self._network(
            input_ids=token_ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        chosen = self.tokens[:, into : into + 1]
        torch.argmax(output.logits[:, -1], dim=-1, keepdim=True, out=chosen)


@contextmanager
def _reading(weights: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise ConfigError(
            "weights must be a folder with a Llama checkpoint, or the id of one on the hub that "
            f"this machine can reach and read, got {weights!r}. For a gated network accept its "
            f"licence on the hub and run `hf auth login`. {error}"
        ) from error


def _require_geometry(geometry: LlamaGeometry, found: PreTrainedConfig, weights: str) -> None:
    differing = [
        f"{name} {getattr(found, name, None)} (not {getattr(geometry, name)})"
        for name in _SHAPE
        if getattr(found, name, None) != getattr(geometry, name)
    ]
    if found.model_type != "llama" or differing:
        raise ConfigError(
            f"weights must be of the geometry that model names, but {weights!r} is a "
            f"{found.model_type} with {', '.join(differing) or 'the same shape'}."
        )
