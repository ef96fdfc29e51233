"""Knobs that vary, as words of a command line."""

from collections.abc import Sequence
from typing import Annotated

import tyro

from joulelab.cli.estimator.options import names
from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.estimator.question import knob_value

Variants = Annotated[
    tuple[tuple[str, ...], ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="KNOB=VALUE[,VALUE...]"),
]


def read_variants(given: Variants) -> dict[str, tuple[KnobValue, ...]]:
    """Return the values of each knob of ``--vary KNOB=VALUE,VALUE``.

    Raises:
        ConfigError: If a word is not of that form.
    """
    return dict(_variant(word) for words in given for word in words)


def _variant(word: str) -> tuple[str, tuple[KnobValue, ...]]:
    knob, _, values = word.partition("=")
    if not (knob and values):
        raise ConfigError(f"--vary takes KNOB=VALUE,VALUE, got {word!r}.")
    pairs: Sequence[tuple[str, KnobValue]] = [
        knob_value(f"{knob}={value}") for value in names(values, f"vary {knob}")
    ]
    return pairs[0][0], tuple(value for _, value in pairs)
