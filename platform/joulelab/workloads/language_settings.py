"""The knobs that language models which generate have in common."""

from dataclasses import dataclass
from typing import Literal, get_args

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice, require_count, require_switch

Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]
KvCache = Literal["dynamic", "static"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network.
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and products; int8, int4 and fp8 store linear layers
            so and keep the rest in 16 bits. tf32 is stored as fp32.
        batch: Sequences computed side by side.
        prompt_tokens: Tokens of each prompt.
        context_tokens: Tokens in the cache when the decode starts, of random content that
            nothing computed; by default those of the prompt that the prefill read.
        new_tokens: Tokens that one decode generates for each prompt.
        kv_cache: dynamic grows by concatenation, as in plain transformers; static is allocated
            for the full length and written in place.
        compile: Compile the decode step, with CUDA graphs on a GPU; needs a static cache.
    """

    model: str
    weights: str | None = None
    precision: Precision = "bf16"
    batch: int = 1
    prompt_tokens: int = 512
    context_tokens: int | None = None
    new_tokens: int = 64
    kv_cache: KvCache = "dynamic"
    compile: bool = False

    def __post_init__(self) -> None:
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_count("prompt_tokens", self.prompt_tokens)
        if self.context_tokens is not None:
            require_count("context_tokens", self.context_tokens)
        require_count("new_tokens", self.new_tokens)
        require_choice("kv_cache", self.kv_cache, get_args(KvCache))
        require_switch("compile", self.compile)
        if self.compile and self.kv_cache != "static":
            raise ConfigError(
                "compile needs kv_cache static, got dynamic: a cache that grows would be compiled "
                "anew at every length."
            )

    @property
    def cached_tokens(self) -> int:
        """Tokens of each sequence in the cache when the decode starts."""
        return self.prompt_tokens if self.context_tokens is None else self.context_tokens

    def check_lengths(self, longest: int) -> None:
        """Refuse sequences that are longer than the network can read.

        Raises:
            ConfigError: If there are such; says by which knobs.
        """
        read = {"prompt_tokens": self.prompt_tokens}
        if self.context_tokens is not None:
            read["context_tokens"] = self.context_tokens
        for knob, tokens in read.items():
            if tokens + self.new_tokens > longest:
                raise ConfigError(
                    f"{knob} + new_tokens must be at most {longest} for {self.model}, "
                    f"got {tokens} + {self.new_tokens}."
                )
