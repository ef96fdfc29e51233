"""What the measuring procedure needs of a program."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import WorkloadCost
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

Settings = TypeVar("Settings")


class Workload(ABC, Generic[Settings]):
    """A program that does a known amount of work each time it is run.

    A subclass names its settings dataclass in :attr:`settings_type`; the fields are the
    workload's knobs, their defaults a sensible first measurement, and their docstring the
    help of the command line. Making a workload costs nothing and imports no framework:
    :meth:`prepare` does.

    Args:
        settings: The knobs.
    """

    settings_type: ClassVar[type[Any]]
    unit: ClassVar[str]
    """What :meth:`run` counts, in the singular: ``"token"``, ``"TFLOP"``, ``"GB"``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, KnobValue]) -> "Workload[Settings]":
        """Make the workload from knob names and values; those left out take their default.

        Raises:
            ConfigError: If a knob is unknown (names the closest) or its value is not allowed.
        """
        known = [field.name for field in fields(cls.settings_type)]
        for name in knobs:
            if name not in known:
                raise unknown_name(f"knob of {cls.__name__.lower()}", name, known)
        try:
            return cls(cls.settings_type(**knobs))
        except TypeError as error:
            raise ConfigError(
                f"{cls.__name__.lower()} cannot take {dict(knobs)}: {error}"
            ) from error

    @property
    @abstractmethod
    def phases(self) -> tuple[str, ...]:
        """Names of the phases, each measured apart, in the order in which they run."""

    @property
    def licence(self) -> str | None:
        """Licence of what it runs that is neither joulelab's nor a permissive one, and of what.

        Every result that it makes is tagged with it.
        """
        return None

    def take_over(self, other: "Workload[Any]") -> None:
        """Keep of ``other``, which is about to be closed, what this one would make alike.

        Called before :meth:`prepare`, on the device that ``other`` ran on.
        """

    @abstractmethod
    def prepare(self) -> None:
        """Allocate, load and compile; nothing here is measured.

        Raises:
            ConfigError: If the device lacks the precision; says which it has.
            DeviceError: If the device has too little memory or is not there.
        """

    @abstractmethod
    def run(self, phase: str) -> float:
        """Do one repeat of ``phase`` to completion, device synchronised; return the work done."""

    @abstractmethod
    def close(self) -> None:
        """Free what :meth:`prepare` took. Safe to call twice."""

    @abstractmethod
    def cost(self) -> WorkloadCost:
        """Count what the program asks of a device, from a trace of it; needs no device."""
