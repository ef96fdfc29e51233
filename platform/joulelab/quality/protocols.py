"""What metrics ask of a network that is loaded."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]


@runtime_checkable
class ReadsTokens(Protocol):
    """Predicts each token of a text from those before it."""

    @property
    def max_tokens(self) -> int:
        """Longest sequence that it reads."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``."""
        ...

    def logits(self, token_ids: Sequence[int]) -> FloatArray:
        """Return the unnormalised log-probabilities of every next token.

        Args:
            token_ids: At most :attr:`max_tokens` tokens, n of them.

        Returns:
            Shape (n, vocabulary), single precision; row i is the prediction of token i + 1.
        """
        ...


@runtime_checkable
class GeneratesText(Protocol):
    """Continues texts, always alike for the same prompt."""

    def generate(self, prompts: Sequence[str], *, new_tokens: int) -> list[str]:
        """Return the continuation of each prompt, without the prompt.

        Args:
            prompts: The prompts.
            new_tokens: Most tokens of a continuation; fewer where the network ends it.
        """
        ...
