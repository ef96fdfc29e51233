"""The knobs of Llama inference."""

from dataclasses import dataclass
from typing import Literal, get_args

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.llama_geometry import GEOMETRIES, LlamaGeometry

Model = Literal["tiny", "tinyllama", "llama-7b", "llama-2-7b", "llama-2-13b", "llama-3-8b"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
KvCache = Literal["dynamic", "static"]
Attention = Literal["sdpa", "eager"]

_ITEM_B = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings:
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network.
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and activations. tf32 is stored as fp32.
        batch: Sequences computed side by side.
        prompt_tokens: Tokens of each prompt.
        new_tokens: Tokens that one decode generates for each prompt.
        kv_cache: dynamic grows by concatenation, as in plain transformers; static is allocated
            for the full length and written in place.
        attention: sdpa is PyTorch's fused attention; eager is products and a softmax.
    """

    model: Model = "llama-2-7b"
    weights: str | None = None
    precision: Precision = "bf16"
    batch: int = 1
    prompt_tokens: int = 512
    new_tokens: int = 64
    kv_cache: KvCache = "dynamic"
    attention: Attention = "sdpa"

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_count("prompt_tokens", self.prompt_tokens)
        require_count("new_tokens", self.new_tokens)
        require_choice("kv_cache", self.kv_cache, get_args(KvCache))
        require_choice("attention", self.attention, get_args(Attention))
        longest = self.geometry.max_position_embeddings
        if self.prompt_tokens + self.new_tokens > longest:
            raise ConfigError(
                f"prompt_tokens + new_tokens must be at most {longest} for {self.model}, "
                f"got {self.prompt_tokens} + {self.new_tokens}."
            )

    @property
    def geometry(self) -> LlamaGeometry:
        """The shape of the network."""
        return GEOMETRIES[self.model]

    @property
    def resident_b(self) -> int:
        """Bytes of the weights and of the cache at its longest; activations come on top."""
        cached = self.batch * (self.prompt_tokens + self.new_tokens)
        numbers = self.geometry.num_parameters + cached * self.geometry.cached_numbers_per_token
        return numbers * _ITEM_B[self.precision]
