"""What a study wants measured: one configuration, once, on one device."""

from dataclasses import dataclass

from joulelab.core.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A request for one measurement per phase of a configured workload."""

    study: str
    name: str  # name within the study, e.g. "1095MHz-r2"; the same after a retry
    configuration: Configuration
    repeat: int = 0  # which repeat of the configuration this is, from 0
    sentinel: bool = False  # whether it only watches for drift
    attempt: int = 0  # 0 for the first try, then 1, 2,
