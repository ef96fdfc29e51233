"""What one request to a program is made of, so that phases weigh as much as they do in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from joulelab.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Work from the arrival of a request, or of a batch side by side, to its end.

    Phases are measured apart, per unit of work each. A request that reads 512 tokens and generates
    64 takes 512 times what a token of the prefill takes, and 64 times what one of the decode does.

    Attributes:
        units: Units of work of each phase, those of the whole batch.
        size: Units of work that the whole counts as; what is said per unit is the total over it.
        num_generated: Tokens that each sequence generates, one after the other; ``None`` where
            nothing is generated.
    """

    units: Mapping[str, float]
    size: float
    num_generated: int | None = None

    def __post_init__(self) -> None:
        if not self.units or not all(units > 0 for units in (self.size, *self.units.values())):
            raise ConfigError(f"A request needs work, got {dict(self.units)} of {self.size:g}.")

    def per_unit(self, phase: str) -> float:
        """Units of ``phase`` that one unit of the whole holds."""
        return self.units[phase] / self.size
