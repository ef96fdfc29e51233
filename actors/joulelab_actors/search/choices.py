"""What the experiments that search let their users choose: axes, and what must be kept to."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from joulelab.cli.variants import Variants, read_variants
from joulelab.cli.workload_choice import workload_name
from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.search.constraints import Constraint, Quantity
from joulelab.search.space import SearchSpace
from joulelab_actors.placement import Site, study_clocks_mhz


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What is searched besides the SM clock, which is left out where no setter may be called.

    Attributes:
        batches: Batches to choose from; by default the workload's own.
        precisions: Number formats to choose from; by default the workload's own.
        power_limits_w: Power limits to choose from; by default the driver's own.
        vary: Other knobs of the workload to choose the value of: steps=50,20.
    """

    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    power_limits_w: tuple[float, ...] = ()
    vary: Variants = ()

    def space(
        self, workload: object, sites: Sequence[Site], *, observe_only: bool = False
    ) -> SearchSpace:
        """Return what is searched on ``sites``.

        Args:
            workload: Settings of the workload.
            sites: GPUs, of one product.
            observe_only: Whether the operating point stays the driver's own.

        Raises:
            ConfigError: If nothing is left to choose, or a power limit that may not be set.
        """
        if observe_only and self.power_limits_w:
            raise ConfigError("--observe-only sets no power limit; leave out --power-limits-w.")
        axes: dict[str, Sequence[KnobValue]] = {}
        if not observe_only:
            axes["sm_clock_mhz"] = study_clocks_mhz(sites)
        given: dict[str, Sequence[KnobValue]] = {
            "power_limit_w": self.power_limits_w,
            "batch": self.batches,
            "precision": self.precisions,
            **read_variants(self.vary),
        }
        axes |= {name: values for name, values in given.items() if values}
        knobs: dict[str, KnobValue] = asdict(workload)  # type: ignore[call-overload]
        rest = {name: value for name, value in knobs.items() if name not in axes}
        return SearchSpace(workload_name(workload), axes, knobs=rest)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a choice must keep to; ``None`` for no limit.

    Attributes:
        max_slowdown: Largest slowdown against the driver's clock, e.g. 0.05.
        max_latency_s: Longest time for a unit of work.
        max_power_w: Highest mean power.
        max_temperature_c: Highest temperature.
        max_memory_gb: Most device memory in use, in units of 1e9 bytes.
    """

    max_slowdown: float | None = None
    max_latency_s: float | None = None
    max_power_w: float | None = None
    max_temperature_c: float | None = None
    max_memory_gb: float | None = None

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits that there are, as constraints of a search."""
        bounds: tuple[tuple[Quantity, float | None], ...] = (
            ("slowdown", self.max_slowdown),
            ("latency_s", self.max_latency_s),
            ("power_w", self.max_power_w),
            ("temperature_c", self.max_temperature_c),
            ("memory_b", None if self.max_memory_gb is None else 1e9 * self.max_memory_gb),
        )
        return tuple(Constraint(quantity=n, bound=b) for n, b in bounds if b is not None)
