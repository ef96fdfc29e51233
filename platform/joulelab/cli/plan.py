"""``joulelab plan``: how many repeats show a change, before it is measured."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.table import Table

from joulelab.cli.terminal import Printing
from joulelab.core.bounds import check_range
from joulelab.core.measurement import Measurement
from joulelab.errors import ConfigError, MeasurementError
from joulelab.tracking.store import ResultStore, study_folders

_MOST_REPEATS = 10_000
"""No more are looked for: a question that needs so many needs another design."""
_LEAST, _MOST = 1e-6, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Printing):
    """Say how many repeats show a change between two configurations, by a paired t test.

    Every repeat is a block that measures both. How much single runs scatter comes from the repeats
    of an earlier study, or from --scatter.

    Attributes:
        results_dir: Results folder of a pilot or an earlier study, or a folder that holds several.
        scatter: Relative standard deviation of single runs (0.01 is one percent), in place of a
            study.
        change: Relative changes that are to be seen.
        power: Probability of seeing a change that is there.
        alpha: Probability of seeing one that is not.
    """

    results_dir: tyro.conf.Positional[Path | None] = None
    scatter: float | None = None
    change: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05)
    power: float = 0.8
    alpha: float = 0.05

    def run(self) -> int:
        """Count and print."""
        check_range("--scatter", self.scatter, _LEAST, _MOST)
        check_range("--power", self.power, 0.5, 0.9999)
        check_range("--alpha", self.alpha, _LEAST, 0.4)
        for each in self.change:
            check_range("--change", each, _LEAST, _MOST)
        scatters = self._scatters()
        repeats = {
            name: [
                repeats_to_see(change, scatter, power=self.power, alpha=self.alpha)
                for change in self.change
            ]
            for name, scatter in scatters.items()
        }
        found = {"change": self.change, "scatter": scatters, "repeats": repeats}
        self.show(found, lambda: self._shown(scatters, repeats))
        return 0

    def _scatters(self) -> Mapping[str, float]:
        if (self.scatter is None) == (self.results_dir is None):
            raise ConfigError("Either a results folder or --scatter is required, not both.")
        if self.scatter is not None:
            return {"runs": self.scatter}
        folders = study_folders(self.results_dir) if self.results_dir else []
        measured = [m for folder in folders for m in ResultStore(folder).read() if m.valid]
        return {
            "energy": scatter_of(measured, [m.energy_per_unit_j for m in measured]),
            "time": scatter_of(measured, [m.time_per_unit_s for m in measured]),
        }

    def _shown(
        self, scatters: Mapping[str, float], repeats: Mapping[str, Sequence[int | None]]
    ) -> tuple[str, Table]:
        heads = [f"{name} (scatter {100 * each:.2g} %)" for name, each in scatters.items()]
        seen = f"{100 * self.power:g} % of the time, at a level of {100 * self.alpha:g} %"
        table = Table("change", *heads)
        for row, change in enumerate(self.change):
            cells = [str(found[row] or f"> {_MOST_REPEATS}") for found in repeats.values()]
            table.add_row(f"{100 * change:g} %", *cells)
        return f"Repeats that show a change {seen}:", table


def repeats_to_see(change: float, scatter: float, *, power: float, alpha: float) -> int | None:
    """Return how many pairs of runs show a relative change with a paired t test, two-sided.

    Logarithms of ratios are tested; ``scatter`` is the relative standard deviation of single runs,
    those of a pair being independent. ``None`` if 10 000 pairs do not suffice.
    """
    effect = float(np.log1p(change) / (np.sqrt(2.0) * scatter))
    high = 2
    while _power(effect, high, alpha) < power:
        high *= 2
        if high > _MOST_REPEATS:
            return None
    counts = range(max(2, high // 2), high)
    return counts.start + bisect_left(counts, power, key=lambda n: _power(effect, n, alpha))


def scatter_of(measured: Sequence[Measurement], values: Iterable[float]) -> float:
    """Return the relative standard deviation of repeats, pooled over configurations and boards.

    Raises:
        MeasurementError: If nothing was repeated.
    """
    groups: dict[object, list[float]] = {}
    for each, value in zip(measured, values, strict=True):
        kind = (each.study, each.configuration, each.phase, each.device.uuid)
        groups.setdefault(kind, []).append(float(np.log(value)))
    repeated = [group for group in groups.values() if len(group) > 1]
    if not repeated:
        raise MeasurementError(
            "Repeats of a configuration on one board are required to know their scatter, got "
            f"{len(measured)} valid measurements without any; take --repeats 2 or more, or say "
            "--scatter."
        )
    squares = sum((len(group) - 1) * float(np.var(group, ddof=1)) for group in repeated)
    return float(np.sqrt(squares / sum(len(group) - 1 for group in repeated)))


def _power(effect: float, num_pairs: int, alpha: float) -> float:
    """Return the power of a paired t test; the effect is over the scatter of differences."""
    from scipy import stats  # type: ignore[import-untyped]

    dof, shift = num_pairs - 1, effect * num_pairs**0.5
    edge = stats.t.ppf(1.0 - alpha / 2.0, dof)
    return float(stats.nct.sf(edge, dof, shift) + stats.nct.cdf(-edge, dof, shift))
