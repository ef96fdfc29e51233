"""A language that is generated, of which the lowest possible perplexity is known.

Each of 64 words is followed by one of four others, with fixed probabilities. Words are of letters
alone and are parted by blanks, so a text has one reading, and what its letters leave open is what
the choices between words leave open.
"""

from functools import cache
from math import exp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_NUM_WORDS = 64
_PROBABILITIES = (0.5, 0.25, 0.15, 0.1)
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
_SYLLABLES = (1, 3)  # of a word, at least and at most
_SEED = 0


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
    draw = np.random.default_rng(_SEED)
    words: dict[str, None] = {}
    while len(words) < _NUM_WORDS:
        syllables = draw.integers(_SYLLABLES[0], _SYLLABLES[1] + 1)
        word = "".join(
            draw.choice(list(letters))
            for _ in range(syllables)
            for letters in (_CONSONANTS, _VOWELS)
        )
        words[word] = None
    # Four permutations without a word in one place: every word is then as frequent as any other.
    orders = [draw.permutation(_NUM_WORDS)]
    while len(orders) < len(_PROBABILITIES):
        order = draw.permutation(_NUM_WORDS)
        if all((order != other).all() for other in orders):
            orders.append(order)
    return Language(tuple(words), np.stack(orders, axis=1))


def text(num_words: int, seed: int) -> str:
    """Return a text of ``num_words`` words."""
    words, successors = language()
    draw = np.random.default_rng(seed)
    choices = draw.choice(len(_PROBABILITIES), size=num_words, p=_PROBABILITIES)
    word = int(draw.integers(_NUM_WORDS))
    said = []
    for choice in choices:
        said.append(words[word])
        word = int(successors[word, choice])
    return " ".join(said)


def least_perplexity() -> float:
    """Return the perplexity of a letter or blank, to one who knows the language.

    It is the exponential of the entropy of a choice between words, over the mean length of a word
    and its blank. All words are equally frequent, since each follows four others, one with each
    of the probabilities.
    """
    entropy = -sum(p * float(np.log(p)) for p in _PROBABILITIES)
    mean_letters = sum(map(len, language().words)) / _NUM_WORDS
    return exp(entropy / (mean_letters + 1))
