"""What the experiments that search let their users choose: axes, and what must be kept to."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from joulelab.cli.words import Variants, read_variants
from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.searching.constraints import Against, Constraint, Quantity
from joulelab.study.search import AskedAxes
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import choices_of

_TIMES = (1, 4, 16)  # batches that are searched unless others are named, over the workload's own
_NARROWER = {"fp32": ("tf32", "bf16"), "tf32": ("bf16",), "fp16": ("int8",), "bf16": ("int8",)}
"""Formats that are searched besides the workload's own unless others are named."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What is searched besides the SM clock, which is left out where no setter may be called.

    If none of them is named, batches of 1, 4 and 16 times the workload's own are searched, and its
    number format with narrower ones, as far as it has these knobs.
    """

    # Batches to choose from; if others are named, the workload's own.
    batches: tuple[int, ...] = ()
    # Number formats to choose from; if others are named, the workload's own.
    precisions: tuple[str, ...] = ()
    # Power limits to choose from; by default the driver's own.
    power_limits_w: tuple[float, ...] = ()
    vary: Variants = ()  # Other knobs of the workload to choose the value of: steps=50,20.

    def asked(self, workload: object, *, observe_only: bool = False) -> AskedAxes:
        """Return the values of each axis, for a workload's settings.

        Raises ConfigError if nothing is left to choose, or a power limit that may not be set, or
        the workload has no such knob.
        """
        _require_knob(workload, "batch", "--batches", self.batches)
        _require_knob(workload, "precision", "--precisions", self.precisions)
        if observe_only and self.power_limits_w:
            raise ConfigError("--observe-only sets no power limit; leave out --power-limits-w.")
        given: dict[str, Sequence[KnobValue] | str] = {
            "sm_clock_mhz": () if observe_only else "all",
            "power_limit_w": self.power_limits_w,
            "batch": self.batches,
            "precision": self.precisions,
        }
        axes = {name: values for name, values in given.items() if values}
        varied = read_variants(self.vary)
        if twice := sorted((axes.keys() - {"sm_clock_mhz"}) & varied.keys()):
            raise ConfigError(
                f"--vary gives values of {', '.join(twice)}, and so does another option; give one."
            )
        axes |= varied
        if not axes.keys() - {"sm_clock_mhz"}:
            axes |= _usual(workload)
        if not axes:
            raise ConfigError(
                "--observe-only leaves the clock to the driver, so that a search needs something "
                f"else to choose, and {WORKLOADS.name_of(workload)} has neither batch nor "
                "precision: give --vary two values or more."
            )
        return axes


def _usual(workload: object) -> dict[str, Sequence[KnobValue]]:
    """Return the values of batch and format that are searched unless others are named."""
    knobs: dict[str, Any] = asdict(workload)  # type: ignore[call-overload]
    axes: dict[str, Sequence[KnobValue]] = {}
    if isinstance(batch := knobs.get("batch"), int):
        axes["batch"] = tuple(batch * times for times in _TIMES)
    if (own := knobs.get("precision")) is not None:
        known = choices_of(type(workload), "precision")
        narrower = [name for name in _NARROWER.get(own, ()) if name in known]
        axes |= {"precision": (own, *narrower)} if narrower else {}
    return axes


def _require_knob(workload: object, knob: str, flag: str, values: Sequence[KnobValue]) -> None:
    """Refuse the values of ``flag`` for a program that has no such knob."""
    knobs = list(asdict(workload))  # type: ignore[call-overload]
    if values and knob not in knobs:
        raise ConfigError(
            f"{flag} chooses {knob!r}, which is no knob of {WORKLOADS.name_of(workload)}; its "
            f"knobs are {', '.join(knobs) or 'none'}. Choose values of those with --vary KNOB=A,B."
        )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a choice must keep to; ``None`` for no limit."""

    max_slowdown: float | None = None  # Largest slowdown against the driver's clock, e.g. 0.05.
    # cell: the driver's clock at the same batch, format and other knobs; baseline: that of the
    # whole search.
    slowdown_against: Against = "cell"
    max_latency_s: float | None = None  # Longest time of a request, with all of its batch.
    max_ttft_s: float | None = None  # Longest time to a request's first token.
    max_tpot_s: float | None = None  # Longest time for each further token of a request.
    min_throughput_per_s: float | None = None  # Least units of work per second.
    max_power_w: float | None = None  # Highest mean power.
    max_temperature_c: float | None = None  # Highest temperature.
    max_memory_gb: float | None = None  # Most device memory in use, in units of 1e9 bytes.

    def __post_init__(self) -> None:
        _ = self.constraints  # refuses what can be no limit

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits that there are, as constraints of a search."""
        bounds: tuple[tuple[Quantity, float | None], ...] = (
            ("slowdown", self.max_slowdown),
            ("latency_s", self.max_latency_s),
            ("ttft_s", self.max_ttft_s),
            ("tpot_s", self.max_tpot_s),
            ("throughput_per_s", self.min_throughput_per_s),
            ("power_w", self.max_power_w),
            ("temperature_c", self.max_temperature_c),
            ("memory_b", None if self.max_memory_gb is None else 1e9 * self.max_memory_gb),
        )
        return tuple(
            Constraint(quantity=name, bound=bound, against=self.slowdown_against)
            for name, bound in bounds
            if bound is not None
        )
