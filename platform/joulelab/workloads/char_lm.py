"""A small language model that is trained to write a generated language, byte by byte.

Of that language the lowest possible perplexity is known. Each of 64 words is followed by one of
four others, with fixed probabilities. Words are of letters alone and are parted by blanks, so a
text has one reading, and what its letters leave open is what the choices between words leave open.
"""

from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from joulelab.core.number_format import NetworkPrecision
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

MAX_TOKENS = 128

_BATCH = 12
_NUM_WORDS = 60_000
_SEED = 1  # of the text that it learns from

_VOCABULARY = 64
_PROBABILITIES = (0.5, 0.25, 0.15, 0.1)
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
_SYLLABLES = (1, 3)  # of a word, at least and at most
_LANGUAGE_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CharLmSettings(LanguageSettings):
    """Write a generated language with a small Llama whose tokens are bytes.

    Attributes:
        model: There is one.
        weights: trained on this machine, once, in a minute or two; None for random.
    """

    model: Literal["char-lm"] = "char-lm"
    weights: Literal["trained"] | None = "trained"
    precision: NetworkPrecision = "fp32"
    batch: int = 16
    prompt_tokens: int = 96
    new_tokens: int = 32

    def __post_init__(self) -> None:
        LanguageSettings.__post_init__(self)
        self.check_lengths(MAX_TOKENS)


class CharLm(LanguageWorkload[CharLmSettings]):
    """Continues bytes, and counts them."""

    settings_type: ClassVar = CharLmSettings

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.training import load

        return load(recipe(), self.settings, device)


def recipe() -> Any:
    """Return how the network is trained: to tell the next byte of a text of the language."""
    import torch

    from joulelab.workloads.training import Recipe

    learned = generated_text(_NUM_WORDS, _SEED).encode()
    read = torch.frombuffer(bytearray(learned), dtype=torch.uint8).long()
    offsets = torch.arange(MAX_TOKENS)

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        starts = torch.randint(len(read) - MAX_TOKENS, (_BATCH, 1), generator=generator)
        tokens = read[starts + offsets]
        result: torch.Tensor = network(input_ids=tokens, labels=tokens).loss
        return result

    return Recipe(
        name="char-lm",
        build=_random_network,
        loss=loss,
        num_steps=1200,
        peak_rate=4e-3,
        sources=("workloads/char_lm.py",),
    )


def _random_network(dtype: Any, device: Any) -> Any:
    from joulelab.workloads import hub

    from transformers import LlamaConfig, LlamaForCausalLM  # isort: skip  # after hub

    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=256,
        max_position_embeddings=MAX_TOKENS,
    )
    return hub.random_model(LlamaForCausalLM, config, dtype, device)


class Language(NamedTuple):
    """Words, and what may follow each.

    Attributes:
        words: The words.
        successors: For each word, the words that may follow it, shape (words, 4).
    """

    words: tuple[str, ...]
    successors: npt.NDArray[np.integer[Any]]


@cache
def language() -> Language:
    """Return the language, drawn once and for all."""
    draw = np.random.default_rng(_LANGUAGE_SEED)
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        syllables = draw.integers(_SYLLABLES[0], _SYLLABLES[1] + 1)
        word = "".join(
            draw.choice(list(letters))
            for _ in range(syllables)
            for letters in (_CONSONANTS, _VOWELS)
        )
        words[word] = None
    # Four permutations without a word in one place: every word is then as frequent as any other.
    orders = [draw.permutation(_VOCABULARY)]
    while len(orders) < len(_PROBABILITIES):
        order = draw.permutation(_VOCABULARY)
        if all((order != other).all() for other in orders):
            orders.append(order)
    return Language(tuple(words), np.stack(orders, axis=1))


def generated_text(num_words: int, seed: int) -> str:
    """Return a text of ``num_words`` words."""
    words, successors = language()
    draw = np.random.default_rng(seed)
    choices = draw.choice(len(_PROBABILITIES), size=num_words, p=_PROBABILITIES)
    word = int(draw.integers(_VOCABULARY))
    written = []
    for choice in choices:
        written.append(words[word])
        word = int(successors[word, choice])
    return " ".join(written)


def least_perplexity() -> float:
    """Return the perplexity of a letter or blank, to one who knows the language.

    It is the exponential of the entropy of a choice between words, over the mean length of a word
    and its blank. All words are equally frequent, since each follows four others, one with each
    of the probabilities.
    """
    entropy = -sum(p * float(np.log(p)) for p in _PROBABILITIES)
    mean_letters = sum(map(len, language().words)) / _VOCABULARY
    return exp(entropy / (mean_letters + 1))
