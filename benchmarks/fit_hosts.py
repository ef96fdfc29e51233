"""Fit what hosts take for programs to networks that test nothing, on cores that nobody disturbed.

Usage: python benchmarks/fit_hosts.py [TABLE...] [--each]

TABLE is what ``measure_networks.py OUT --fitting --host-bound`` wrote, X.csv beside X_host.toml.
Prints the factors of ``hardware/launch_cost.py`` and ``pricing/run.py``, and how far programs are
off by them: all, and each network by factors that are fitted to the others.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np
from fit_networks import plan_of
from numpy.typing import NDArray
from scipy.optimize import nnls

from joulelab.csv_table import read_csv_table
from joulelab.estimator.pricing.kernel_count import num_kernels
from joulelab.estimator.pricing.power import settle
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.run import LIBRARY_LAUNCH, launch_s
from joulelab.hardware.launch_cost import LAUNCHES, MODULES
from joulelab.hardware.processors import PROCESSORS, Host, find_host, on_host

_HOSTS = Path(__file__).parents[1] / "experiments" / "results" / "h200_hosts"
_TABLES = tuple(_HOSTS / f"{name}_fitted.csv" for name in ("first", "second", "third", "fourth"))
_H200 = PROCESSORS["h200_sxm"]
_HOST_BOUND = 0.7
"""Share of the measured time that kernels take, up to which the host sets it."""
_MOST_DISTURBED = 0.35
"""Share of a window in which others may slow the core: times are of the rest of it."""
_ROBUST = 0.03
_ROUNDS = 30
_NAMES = ("LAUNCHES", "VIEWS", "LIBRARY_LAUNCH x LAUNCHES")
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program whose pace the host sets.

    Attributes:
        parts_s: Times in loops of its launches, of its views and of launches within libraries.
        modules_s: Time of its modules, by the factor that is set and not fitted.
        host_s: What the host took for one execution, undisturbed.
    """

    name: str
    network: str
    is_training: bool
    parts_s: tuple[float, float, float]
    modules_s: float
    host_s: float

    def error(self, factors: Array) -> float:
        """Return how far the time by ``factors`` is off, as a share."""
        return (float(np.dot(self.parts_s, factors)) + self.modules_s) / self.host_s - 1.0


def main() -> int:
    """Print factors and errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, nargs="*", default=_TABLES)
    parser.add_argument("--each", action="store_true", help="print every program, too")
    settings = parser.parse_args()
    programs = [one for table in settings.tables for one in _read(table)]
    inference = [one for one in programs if not one.is_training]
    factors = fitted(inference)
    errors = [one.error(factors) for one in inference]
    left_out = [
        one.error(fitted([other for other in inference if other.network != one.network]))
        for one in inference
    ]
    training = [1 / (1 + one.error(factors)) for one in programs if one.is_training]
    for name, factor in zip(_NAMES, factors, strict=True):
        print(f"{name} = {factor:.3g}")
    print(f"MODULES = {MODULES:.3g}, set")
    print(f"TRAINING = {median(training):.3g} of {len(training)}")
    print(f"{len(inference)} programs: {_mean(errors):.1%} off")
    print(f"each network by factors of the others: {_mean(left_out):.1%}")
    for one, error in sorted(zip(inference, errors, strict=True), key=lambda pair: pair[1]):
        if settings.each:
            print(f"{error:+7.1%}  {one.name}")
    return 0


def _read(table: Path) -> list[Program]:
    host = find_host(str(table.with_name(f"{table.stem}_host.toml")))
    rows = [row for row in read_csv_table(table) if not row["error"] and row["undisturbed_s"]]
    calm = [row for row in rows if float(row["disturbed"]) <= _MOST_DISTURBED]
    return [found for row in calm if (found := _program(row, host)) is not None]


def _program(row: dict[str, str], host: Host) -> Program | None:
    """Return the program of a row; ``None`` if the device sets its pace."""
    found, host_s = plan_of(row), float(row["undisturbed_s"])
    here = on_host(_H200, host)
    clock_mhz, cap_w = np.array([here.default_clock_mhz]), np.array([np.inf])
    settled = settle(group_costs(found.table, here), here, clock_mhz, cap_w)
    if settled.device_s[0, found.table.sequence].sum() > _HOST_BOUND * host_s:
        return None
    timing = replace(here.timing, module_s=0.0, view_s=0.0, training_launch=1.0)
    launches_s = float(launch_s(found, replace(here, timing=timing), "eager").sum())
    more = float((num_kernels(found.table, here) - 1)[found.table.sequence].sum())
    library_s = more * host.operator_s["add"]
    return Program(
        name=row["name"],
        network=row["network"],
        is_training=row["phase"] == "train",
        parts_s=(
            launches_s / LAUNCHES - LIBRARY_LAUNCH * library_s,
            host.operator_s["add"] * float(found.calls_before.sum()),
            library_s,
        ),
        modules_s=MODULES * host.module_s * float(found.entered.sum()),
        host_s=host_s,
    )


def fitted(programs: Sequence[Program]) -> Array:
    """Return the factors, none below 0, that make the mean size of errors least."""
    parts = np.array([one.parts_s for one in programs])
    host_s = np.array([one.host_s for one in programs])
    modules_s = np.array([one.modules_s for one in programs])
    weight = np.ones(len(programs))
    for _ in range(_ROUNDS):
        shares = parts * (weight / host_s)[:, None]
        factors: Array = nnls(shares, weight * (host_s - modules_s) / host_s)[0]
        errors = np.array([one.error(factors) for one in programs])
        weight = (np.abs(errors) + _ROBUST) ** -0.5
    return factors


def _mean(errors: Sequence[float]) -> float:
    return fmean(map(abs, errors))


if __name__ == "__main__":
    sys.exit(main())
