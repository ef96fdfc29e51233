"""What the experiments that search let their users choose: axes, and what must be kept to."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from joulelab.cli.variants import Variants, read_variants
from joulelab.cli.workload_choice import workload_name
from joulelab.core.bounds import MOST_SEED, check_range
from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name
from joulelab.search.constraints import Constraint, Quantity
from joulelab.search.space import SearchSpace
from joulelab_actors.placement import Site, study_clocks_mhz
from joulelab_actors.search.algorithms import ALGORITHMS


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

    def check(self, workload: object, *, algorithm: str, seed: int) -> None:
        """Refuse, before there is a GPU, what none could search.

        Args:
            workload: Settings of the workload.
            algorithm: Name of the algorithm.
            seed: Its seed.

        Raises:
            ConfigError: If the workload refuses a knob's value, there is no such algorithm, or no
                such seed.
        """
        check_range("seed", seed, 0, MOST_SEED)
        if algorithm not in ALGORITHMS:
            raise unknown_name("search algorithm", algorithm, ALGORITHMS)
        for power_limit_w in self.power_limits_w:
            OperatingPoint(power_limit_w=power_limit_w)
        if axes := self._knobs():
            _space(workload, axes)

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
        for site in sites if self.power_limits_w else ():
            _check_power_limits(self.power_limits_w, site)
        if self.power_limits_w:
            axes["power_limit_w"] = self.power_limits_w
        return _space(workload, axes | self._knobs())

    def _knobs(self) -> dict[str, Sequence[KnobValue]]:
        """Return the values of each knob of the workload that is searched."""
        given: dict[str, Sequence[KnobValue]] = {
            "batch": self.batches,
            "precision": self.precisions,
            **read_variants(self.vary),
        }
        return {name: values for name, values in given.items() if values}


def _check_power_limits(power_limits_w: Sequence[float], site: Site) -> None:
    bounds_w = site.capabilities.power_limits_w
    if bounds_w is None:
        raise ConfigError(f"The power limit of {site.uuid} is fixed; leave out --power-limits-w.")
    for power_limit_w in power_limits_w:
        check_range(f"A power limit of {site.uuid}, in W,", power_limit_w, *bounds_w)


def _space(workload: object, axes: dict[str, Sequence[KnobValue]]) -> SearchSpace:
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

    def __post_init__(self) -> None:
        _ = self.constraints  # refuses what can be no limit

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


def quality_floor(share: float | None) -> tuple[Constraint, ...]:
    """Return what keeps a search to ``share`` of the baseline's quality; nothing for ``None``.

    Raises:
        ConfigError: If it is no share.
    """
    return () if share is None else (Constraint(quantity="quality", bound=share),)
