"""What is to be low: products of energy, time, and the quality that is lost."""

from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError
from joulelab.registry import Registry

Quantity = TypeVar("Quantity", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """``E^a T^b / Q^c``: energy, time, and the share of the reference's quality that is kept.

    Attributes:
        name: How commands and results call it.
        energy_exponent: ``a``; >= 0.
        time_exponent: ``b``; >= 0.
        quality_exponent: ``c``; >= 0, and 0 where quality does not count.
    """

    name: str
    energy_exponent: float = 1.0
    time_exponent: float = 0.0
    quality_exponent: float = 0.0

    def __post_init__(self) -> None:
        exponents = (self.energy_exponent, self.time_exponent, self.quality_exponent)
        if not all(0 <= exponent < inf for exponent in exponents):
            raise ConfigError(f"Exponents must be finite and not negative, got {exponents}.")

    def cost(self, energy_j: Quantity, time_s: Quantity) -> Quantity:
        """Return ``E^a T^b``, which lower is better; quality is left out."""
        cost: Quantity = energy_j**self.energy_exponent * time_s**self.time_exponent
        return cost

    @property
    def label(self) -> str:
        """How tables and plots call it: ``"EDP"``, ``"energy"``."""
        is_product = bool(self.energy_exponent and (self.time_exponent or self.quality_exponent))
        return self.name.upper() if is_product and len(self.name) <= 4 else self.name

    @property
    def unit(self) -> str:
        """Unit of :meth:`cost` of a unit of work: ``"J s²"``."""
        units = (("J", self.energy_exponent), ("s", self.time_exponent))
        return " ".join(f"{unit}{_power(exponent)}" for unit, exponent in units if exponent)


class _Objectives(Registry[Objective]):
    """Objectives by name, those of other packages among them."""

    def accept(self, name: str, made: object) -> Objective:
        if not isinstance(made, Objective):
            raise ConfigError(f"an objective must be an Objective, got {made!r}")
        return replace(made, name=name)


ENERGY = Objective(name="energy")
TIME = Objective(name="time", energy_exponent=0.0, time_exponent=1.0)
EDP = Objective(name="edp", time_exponent=1.0)
ED2P = Objective(name="ed2p", time_exponent=2.0)
QEP = Objective(name="qep", time_exponent=1.0, quality_exponent=1.0)

OBJECTIVES = _Objectives(
    "objective",
    {each.name: f"{__name__}:{each.name.upper()}" for each in (ENERGY, TIME, EDP, ED2P, QEP)},
    group="joulelab.objectives",
)


def without_quality(name: str) -> Objective:
    """Return the objective called ``name`` for what evaluates no quality.

    Raises:
        UnknownNameError: If there is none; names the closest ones.
        ConfigError: If quality counts in it, or that of another package cannot be had.
    """
    objective = OBJECTIVES[name]
    if objective.quality_exponent:
        raise ConfigError(
            f"The objective must be one without quality, which only a search for qep evaluates, "
            f"got {name}."
        )
    return objective


def _power(exponent: float) -> str:
    superscripts = {1: "", 2: "\N{SUPERSCRIPT TWO}", 3: "\N{SUPERSCRIPT THREE}"}
    return superscripts.get(exponent, f"^{exponent:g}")  # type: ignore[call-overload,no-any-return]
