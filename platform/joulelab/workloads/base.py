"""What the measuring procedure needs of a program."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import WorkloadCost
from joulelab.core.energy import EnergyWindow
from joulelab.core.quality import Direction
from joulelab.core.request import Request
from joulelab.errors import ConfigError
from joulelab.workloads.knobs import made_with

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
    uses_gpu: ClassVar[bool] = True
    """Whether it works on the GPU once it is prepared. One that does is refused where it does not:
    it would be said to cost what an idle GPU draws."""
    quality_direction: ClassVar[Direction] = "higher"
    """Which scores are better of those that :meth:`quality` returns."""
    quality_knobs: ClassVar[tuple[str, ...] | None] = None
    """The knobs that change outputs, where some do not: whatever the others are, outputs are
    scored once. ``None`` for all knobs."""
    is_defined_by_settings: ClassVar[bool] = True
    """Whether workloads of this class and of equal settings are alike, so that the cost of one that
    was counted before may be taken; not so of what holds an object of the user's."""
    gpu_uuid: str | None = None
    """The GPU that is measured, for programs that it starts; ``None`` if there is no such thing."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, KnobValue]) -> "Workload[Settings]":
        """Make the workload from knob names and values; those left out take their default.

        Raises:
            ConfigError: If a knob is unknown (names the closest) or its value is not allowed.
        """
        return cls(made_with(cls.settings_type, knobs, cls.__name__.lower()))

    @property
    @abstractmethod
    def phases(self) -> tuple[str, ...]:
        """Names of the phases, each measured apart, in the order in which they run."""

    @property
    def request(self) -> Request | None:
        """What one request is made of; by default a unit that goes through all phases.

        ``None`` where that does not say how long a request takes, as where requests come when they
        like.
        """
        return Request(units=dict.fromkeys(self.phases, 1.0), size=1.0)

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

    def rest(self) -> None:
        """End what goes on between repeats, so that the device is idle; called after each phase."""

    @property
    def recording(self) -> str | None:
        """Name of the recording that was played last; ``None`` for a program that really runs."""
        return None

    @property
    def processes(self) -> tuple[int, ...]:
        """Other processes that do its work, with all their descendants."""
        return ()

    def figures(self, windows: Sequence[EnergyWindow]) -> Mapping[str, float]:
        """Return what else the work in some windows came to, by name with its unit as a suffix.

        Args:
            windows: Those of a phase; their instants are of the machine's monotonic clock, and hold
                whole calls of :meth:`run`.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Free what :meth:`prepare` took. Safe to call twice."""

    @property
    def has_cost(self) -> bool:
        """Whether :meth:`cost` is there to be asked."""
        return type(self).cost is not Workload.cost

    def cost(self) -> WorkloadCost:
        """Count what the program asks of a device, from a trace of it; needs no device.

        Only devices that exist in arithmetic alone and the estimator ask for it: a workload for
        real GPUs can do without.

        Raises:
            ConfigError: If the workload does not define it.
        """
        raise no_cost(type(self).__name__)

    def quality(self) -> Sequence[float] | float:
        """Score the outputs: a number for each example, always the same ones, or one for all.

        A search over quality asks for it before anything is measured, of a workload that is not
        prepared, and closes it then. A workload whose outputs nobody scores can do without.

        Raises:
            ConfigError: If the workload does not define it.
        """
        raise no_quality(type(self).__name__)


def no_quality(name: str) -> ConfigError:
    """Return the error of a program of which nobody knows what its outputs are worth."""
    return ConfigError(
        f"{name} does not say what its outputs are worth, which this takes: give the class a "
        "method quality(self), or the function an attribute quality, that returns a score for each "
        "example (docs/how-to/own_quality.md)."
    )


def no_cost(name: str) -> ConfigError:
    """Return the error of a program of which nobody knows what it asks of a device."""
    return ConfigError(
        f"{name} has no cost, which simulated GPUs and the estimator are told of a program; "
        "give it one (docs/how-to/own_program.md), or measure it on a real GPU."
    )
