"""What a study wants measured: one configuration, once, on one device."""

from dataclasses import dataclass

from joulelab.core.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A request for one measurement per phase of a configured workload.

    Attributes:
        name: Name within the study, e.g. ``"1095MHz-r2"``; the same after a retry.
        repeat: Which repeat of the configuration this is, from 0.
        sentinel: Whether it only watches for drift.
        attempt: 0 for the first try, then 1, 2, ...
    """

    study: str
    name: str
    configuration: Configuration
    repeat: int = 0
    sentinel: bool = False
    attempt: int = 0
