"""What the measuring procedure needs of a program, and checks on the values of its knobs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from joulelab.core.configuration import KnobValue, require_plain
from joulelab.core.cost import Request, WorkloadCost
from joulelab.core.energy import EnergyWindow
from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name
from joulelab.workloads.read_ahead import Reading

LONGEST_RUN_S = 0.05
"""What consists of equal parts is cut so that no run of it takes longer, however slow the device:
every window holds whole runs."""
Made = TypeVar("Made")
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
        """Make it from knobs by name, others at their default; ConfigError if one is wrong."""
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
        """Licence of what it runs that is not permissive, and of what; tags its results."""
        return None

    def take_over(self, other: "Workload[Any]") -> None:
        """Keep of ``other``, which is about to be closed, what this one would make alike.

        Called before :meth:`prepare`, on the device that ``other`` ran on.
        """

    @property
    def kept_b(self) -> int:
        """Memory of the device that it holds for other settings; no measurement counts it."""
        return 0

    def read_ahead(self) -> Reading | None:
        """Have read what :meth:`prepare` will load, while another program is measured.

        Returns at once, with what halts it: it must not compute in this process. By default
        nothing is.
        """
        return None

    @abstractmethod
    def prepare(self) -> None:
        """Allocate, load and compile; nothing here is measured.

        Raises ConfigError if the device lacks the precision, DeviceError if it lacks memory.
        """

    @abstractmethod
    def run(self, phase: str) -> float:
        """Do one repeat of ``phase`` to completion, device synchronised; return the work done."""

    def parts(self, phase: str) -> int:
        """Into how many equal parts a run of ``phase`` may be cut; 1 for none."""
        return 1

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
        """Return what else the work in ``windows`` came to, by name with its unit as a suffix.

        They are of a phase, on the machine's monotonic clock, and hold whole calls of :meth:`run`.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Free what :meth:`prepare` took. Safe to call twice."""

    @property
    def has_cost(self) -> bool:
        """Whether :meth:`cost` is sure to answer."""
        return type(self).cost is not Workload.cost

    def cost(self) -> WorkloadCost:
        """Count what the program asks of a device, from a trace of it; needs no device.

        Only devices that exist in arithmetic alone and the estimator ask for it: a workload for
        real GPUs can do without. Raises ConfigError if it is not defined.
        """
        raise no_cost(type(self).__name__)

    def quality(self) -> Sequence[float] | float:
        """Score the outputs: a number for each example, always the same ones, or one for all.

        It is asked of a workload that is not prepared, and closed then. Raises ConfigError if it is
        not defined.
        """
        raise no_quality(type(self).__name__)


def no_quality(name: str) -> ConfigError:
    """Return the error of a program of which nobody knows what its outputs are worth."""
    return ConfigError(
        f"{name} does not say what its outputs are worth, which this takes: give the class a "
        "method quality(self), or the function an attribute quality, that returns a score for each "
        "example (docs/how-to/own_quality.md)."
    )


def no_cost(name: str, trace: str = "") -> ConfigError:
    """Return the error of a program of which nobody knows what it asks of a device.

    ``trace`` says what a trace of it showed.
    """
    return ConfigError(
        f"{name} has no cost, which simulated GPUs and the estimator need of a program{trace}; "
        "give it one (docs/how-to/own_program.md), or measure it on a real GPU."
    )


MOST = 1_000_000
"""Of anything that a workload counts or takes so long or large: beyond it no GPU ever ends."""


def check_knobs(
    settings: Any, *, but: Collection[str] = (), least: Mapping[str, int] | None = None
) -> None:
    """Refuse a knob whose value its type excludes; those named in ``but`` are checked elsewhere.

    A literal is a choice, an integer a count, which ``least`` may bound, a float a positive number
    and a bool a switch. Raises ConfigError if there is such a value.
    """
    for name, kind, is_optional in _kinds(type(settings)):  # type: ignore[arg-type]
        value = getattr(settings, name)
        if name in but or (is_optional and value is None):
            continue
        if get_origin(kind) is Literal:
            require_choice(name, value, get_args(kind))
        elif kind is int:
            require_count(name, value, least=(least or {}).get(name, 1))
        elif kind in _CHECKS:
            _CHECKS[kind](name, value)


def made_with(kind: type[Made], knobs: Mapping[str, KnobValue], owner: str) -> Made:
    """Make ``kind`` of knobs, others at their default; ConfigError if one is unknown or wrong."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for name, value in knobs.items():
        if name not in known:
            raise unknown_name(f"knob of {owner}", name, known)
        require_plain(name, value)
    try:
        return kind(**knobs)
    except TypeError as error:
        raise ConfigError(f"{owner} cannot take {dict(knobs)}: {error}") from error


def choices_of(settings_type: type[Any], name: str) -> tuple[Any, ...]:
    """Return what the knob ``name`` may be; empty if that is no list of choices."""
    kinds = {knob: kind for knob, kind, _ in _kinds(settings_type)}  # type: ignore[arg-type]
    return get_args(kinds[name]) if get_origin(kinds[name]) is Literal else ()


@cache
def _kinds(settings_type: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    """Return name, type, and whether it may be ``None``, of each knob."""
    hints = get_type_hints(settings_type)
    found = []
    for name in (field.name for field in fields(settings_type)):
        parts = alternatives(hints[name])
        found.append((name, parts[0], NoneType in parts))
    return tuple(found)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return what ``hint`` is a union of; itself if it is none."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse ``value`` unless it is one of ``choices``, by an UnknownNameError with the closest."""
    if value not in choices:
        raise unknown_name(name, str(value), choices)


def require_count(name: str, value: object, *, least: int = 1, most: int = MOST) -> None:
    """Refuse ``value`` unless it is a whole number within these, by a ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value > most:
        raise ConfigError(f"{name} must be at most {most}, got {value!r}.")


def require_positive(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a positive number up to ``MOST``, by a ConfigError."""
    if not (_is_number(value) and 0 < float(str(value)) < float("inf")):
        raise ConfigError(f"{name} must be a positive number, got {value!r}.")
    if float(str(value)) > MOST:
        raise ConfigError(f"{name} must be at most {MOST}, got {value!r}.")


def require_multiple(name: str, value: object, of: int) -> None:
    """Refuse ``value`` unless it is a positive multiple of ``of``, by a ConfigError."""
    require_count(name, value)
    if int(str(value)) % of:
        raise ConfigError(f"{name} must be a multiple of {of}, got {value!r}.")


def require_fraction(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a number from 0 to 1, by a ConfigError."""
    if not (_is_number(value) and 0 <= float(str(value)) <= 1):
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}.")


def _require_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS = {float: require_positive, bool: _require_switch}
