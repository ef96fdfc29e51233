"""What is to be measured: a workload, its knobs, and the operating point under it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from hashlib import sha256
from json import dumps
from typing import Any

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError

KnobValue = str | int | float | bool | None
"""A workload knob's value: a JSON scalar, so that a configuration is a line of text."""


def require_plain(name: str, value: object) -> None:
    """Refuse, by a ConfigError, what is no :data:`KnobValue`, as an integer of numpy is none."""
    if not isinstance(value, str | int | float | None):
        raise ConfigError(
            f"{name} must be a plain number, text, true, false or None, got {value!r}; of numpy's, "
            ".item() and .tolist() make plain ones."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point of the space that an experiment searches.

    Attributes:
        workload: Registry name of the workload.
        knobs: The workload's own settings as sorted ``(name, value)`` pairs; build
            them with :meth:`of` from the workload's settings dataclass.
        point: Requested operating point of the device.
    """

    workload: str
    knobs: tuple[tuple[str, KnobValue], ...] = ()
    point: OperatingPoint = field(default_factory=OperatingPoint)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.knobs]
        if names != sorted(set(names)):
            raise ConfigError(f"knobs must be sorted by name without doubles, got {names}.")
        for name, value in self.knobs:
            require_plain(name, value)

    @classmethod
    def of(
        cls, workload: str, settings: object = None, point: OperatingPoint | None = None
    ) -> "Configuration":
        """Build a configuration from a settings dataclass or a mapping of knobs.

        Raises ConfigError if ``settings`` is neither.
        """
        if settings is None:
            knobs: Mapping[str, Any] = {}
        elif isinstance(settings, Mapping):
            knobs = settings
        elif is_dataclass(settings) and not isinstance(settings, type):
            knobs = asdict(settings)
        else:
            raise ConfigError(f"settings must be a dataclass or a mapping, got {settings!r}.")
        return cls(
            workload=workload,
            knobs=tuple(sorted(knobs.items())),
            point=point or OperatingPoint(),
        )

    @property
    def program(self) -> tuple[str, tuple[tuple[str, KnobValue], ...]]:
        """What is the same at any operating point: the workload and its knobs."""
        return self.workload, self.knobs

    @property
    def config_hash(self) -> str:
        """Twelve hex digits that name this configuration across processes and days."""
        return sha256(dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def knob_words(knobs: Iterable[tuple[str, object]]) -> str:
    """Return knobs as words for people, ``"batch=8, precision=fp16"``."""
    return ", ".join(f"{name}={value}" for name, value in knobs)
