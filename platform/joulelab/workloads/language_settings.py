"""Knobs of language models that generate."""

from dataclasses import dataclass
from typing import Literal

from joulelab.errors import ConfigError
from joulelab.workloads.network import NetworkSettings

KvCache = Literal["dynamic", "static"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings(NetworkSettings):
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network.
        prompt_tokens: Tokens of each prompt.
        context_tokens: Tokens in the cache when the decode starts, of random content that
            nothing computed; by default those of the prompt that the prefill read.
        new_tokens: Tokens that one decode generates for each prompt.
        kv_cache: dynamic grows by concatenation, as in plain transformers; static is allocated
            for the full length and written in place.
        compile: Compile the decode step, with CUDA graphs on a GPU; needs a static cache.
    """

    model: str
    prompt_tokens: int = 512
    context_tokens: int | None = None
    new_tokens: int = 64
    kv_cache: KvCache = "dynamic"
    compile: bool = False

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
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
        """Refuse longer sequences than the network can read, by a ConfigError that names knobs."""
        read = {"prompt_tokens": self.prompt_tokens}
        if self.context_tokens is not None:
            read["context_tokens"] = self.context_tokens
        for knob, tokens in read.items():
            if tokens + self.new_tokens > longest:
                raise ConfigError(
                    f"{knob} + new_tokens must be at most {longest} for {self.model}, "
                    f"got {tokens} + {self.new_tokens}."
                )
