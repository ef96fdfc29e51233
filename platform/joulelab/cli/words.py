"""Words of a command line that hold several values, and how they are read."""

from collections.abc import Sequence
from typing import Annotated

import tyro

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.estimator.question import knob_value

Names = Annotated[str, tyro.conf.arg(metavar="NAME[,NAME...]")]
Numbers = Annotated[str, tyro.conf.arg(metavar="N[,N...]")]
Formats = Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME...]")]
KnobWords = Annotated[
    tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]


def names(words: str, what: str) -> tuple[str, ...]:
    """Read ``"a,b"``, or raise :class:`ConfigError` if there is no name in it."""
    found = tuple(word.strip() for word in words.split(",") if word.strip())
    if not found:
        raise ConfigError(f"--{what} needs at least one name, got {words!r}.")
    return found


def numbers(words: str, what: str) -> tuple[int, ...]:
    """Read ``"1,8,64"``, or raise :class:`ConfigError` if a word is no whole number."""
    return tuple(_number(word, what) for word in names(words, what))


def knob_values(words: Sequence[Sequence[str]]) -> dict[str, KnobValue]:
    """Read ``key=value`` words, or raise :class:`ConfigError` if one has no ``=``."""
    return dict(knob_value(word) for some in words for word in some)


def _number(word: str, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"--{what} takes whole numbers, got {word!r}.") from None


Variants = Annotated[
    tuple[tuple[str, ...], ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="KNOB=VALUE[,VALUE...]"),
]


def read_variants(given: Variants) -> dict[str, tuple[KnobValue, ...]]:
    """Return the values of each knob of ``--vary KNOB=VALUE,VALUE``, likewise."""
    return dict(_variant(word) for words in given for word in words)


def _variant(word: str) -> tuple[str, tuple[KnobValue, ...]]:
    knob, _, values = word.partition("=")
    if not (knob and values):
        raise ConfigError(f"--vary takes KNOB=VALUE,VALUE, got {word!r}.")
    pairs: Sequence[tuple[str, KnobValue]] = [
        knob_value(f"{knob}={value}") for value in names(values, f"vary {knob}")
    ]
    return pairs[0][0], tuple(value for _, value in pairs)
