"""Texts that a network wrote, to be compared with what they should be or with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.base import Metric
from joulelab.quality.protocols import GeneratesText
from joulelab.quality.text_data import TextData
from joulelab.workloads.knobs import require_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuations(Metric):
    """A metric of the continuations of the data set's prompts.

    Attributes:
        new_tokens: Most tokens of a continuation.
    """

    new_tokens: int = 64

    def __post_init__(self) -> None:
        require_count("new_tokens", self.new_tokens)

    @property
    @override
    def observation(self) -> str:
        return f"continuations of {self.new_tokens}"

    @override
    def check(self, data: TextData) -> None:
        if not data.prompts:
            raise ConfigError(
                f"{self.name} needs prompts: .jsonl lines with a prompt; {data.name} has none. "
                "perplexity, token_agreement and kl_divergence need none."
            )
        if "references" in self.needs and not (data.references and all(data.references)):
            raise ConfigError(
                f"{self.name} needs a reference for every prompt: .jsonl lines with a prompt and "
                f"a reference, which {data.name} lacks. perplexity, token_agreement and "
                "kl_divergence need none."
            )

    @override
    def observe(self, subject: GeneratesText, data: TextData) -> Sequence[str]:
        return subject.generate(data.prompts, new_tokens=self.new_tokens)
