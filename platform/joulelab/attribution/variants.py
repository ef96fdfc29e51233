"""The same program with other settings, attributed beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from joulelab.core.configuration import Configuration, KnobValue, knob_words
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS

DECODE = "decode"
_CONTEXT = "context_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Settings of the program that differ, and the only phase that is attributed, if not all."""

    knobs: Mapping[str, KnobValue]
    phase: str = ""

    @property
    def context_tokens(self) -> int | None:
        """Tokens in the cache when the decode starts that is all of it; ``None`` for others."""
        return int(str(self.knobs[_CONTEXT])) if self.phase == DECODE else None

    def of(self, configuration: Configuration) -> Configuration:
        """Return the program with these settings; raises ConfigError if it does not take them."""
        knobs = {**dict(configuration.knobs), **self.knobs}
        settings = WORKLOADS[configuration.workload].from_knobs(knobs).settings
        return Configuration.of(configuration.workload, settings, configuration.point)

    def __str__(self) -> str:
        if self.context_tokens is not None:
            return f"{self.context_tokens} tokens in the cache"
        return knob_words(self.knobs.items())


def variants_of(
    contexts: Sequence[int] = (), vary: Mapping[str, Sequence[KnobValue]] | None = None
) -> tuple[Variant, ...]:
    """Return decodes after so many tokens in the cache, and all combinations of settings."""
    vary = vary or {}
    if empty := [name for name, values in vary.items() if not values]:
        raise ConfigError(f"{empty[0]} must vary over one value or more, got none.")
    decodes = [Variant(knobs={_CONTEXT: tokens}, phase=DECODE) for tokens in contexts]
    settings = product(*vary.values()) if vary else ()
    return (*decodes, *(Variant(knobs=dict(zip(vary, each, strict=True))) for each in settings))
