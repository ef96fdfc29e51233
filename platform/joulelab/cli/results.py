"""Commands on results: deliver them to MLflow, mend, report anew; plan how many repeats to take."""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import tyro
from rich.table import Table

from joulelab.analysis.quantities import counted
from joulelab.analysis.repeat_scatter import RepeatScatter, repeat_scatters
from joulelab.cli.terminal import Printing
from joulelab.core.bounds import check_range
from joulelab.errors import ConfigError, JouleLabError, one_line
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.delivery import DeliveryReport, deliver
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.repair import ENDING, repair
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore, read_studies, study_folders
from joulelab.tracking.study_lock import StudyLock

T = TypeVar("T")
_MOST_ROWS = 1_000_000
_MOST_REPEATS = 10_000  # no more are looked for: a question that needs so many needs another design
_LEAST, _MOST = 1e-6, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Printing):
    """Deliver the results of a folder to MLflow; what is there already is left alone."""

    # Results folder of one study, or a folder that holds several.
    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    # MLflow store: sqlite:////absolute/path.db or the address of a server. By default the one that
    # each study names, else mlflow.db in the results folder. Passwords are not kept: a store that
    # has one is to be named again.
    tracking_uri: str | None = None

    def run(self) -> int:
        """Deliver every study below the folder; 1 if something is left."""
        if self.tracking_uri:
            usable_uri(self.tracking_uri)
        reports, left_out = _of_each(self.results_dir, self._deliver)
        self.show(
            {folder: asdict(report) for folder, report in reports.items()} | left_out,
            lambda: [f"{folder}: {_delivery_words(each)}" for folder, each in reports.items()],
        )
        return int(bool(left_out) or any(r.error or r.num_left for r in reports.values()))

    def _deliver(self, folder: Path) -> DeliveryReport:
        store = ResultStore(folder, writer="sync")
        header = store.read_study()
        uri = self.tracking_uri or (header.tracking_uri if header else None)
        tracker = MlflowTracker(usable_uri(uri or embedded_uri(self.results_dir)))
        try:
            return deliver(store, tracker)
        finally:
            tracker.close()
            store.close()


def _of_each(
    root: Path, action: Callable[[Path], T]
) -> tuple[dict[str, T], dict[str, dict[str, str]]]:
    """Return what an action makes of each study below a folder, and of which it failed and why.

    Those are printed at once, and keep no other study from its turn. Raises what the action does if
    there is one study alone.
    """
    folders = study_folders(root)
    done: dict[str, T] = {}
    left_out: dict[str, dict[str, str]] = {}
    for folder in folders:
        try:
            done[str(folder)] = action(folder)
        except JouleLabError as error:
            if len(folders) == 1:
                raise
            left_out[str(folder)] = {"error": str(error)}
            print(f"{folder} is left out: {one_line(str(error))}", file=sys.stderr)
    return done, left_out


def _delivery_words(report: DeliveryReport) -> str:
    sentence = f"delivered {report.num_delivered} to {report.target}"
    return (
        f"{sentence}, {report.num_left} left: {one_line(report.error)}"
        if report.error
        else sentence
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Printing):
    """Set aside what is broken in a results folder; nothing is thrown away.

    Broken lines go into a file that ends in .broken beside their own, and so do, as a whole, traces
    and other files that cannot be read.
    """

    # Results folder of one study, or a folder that holds several.
    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS

    def run(self) -> int:
        """Repair every study below the folder and print what was set aside; 1 if one could not."""
        found, left_out = _of_each(self.results_dir, repair)
        self.show(found | left_out, lambda: _set_aside(found))
        return int(bool(left_out))


def _set_aside(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for folder, sentences in found.items():
        aside = f"{len(sentences)} set aside in files that end in {ENDING}"
        yield f"{folder}: {aside if sentences else 'nothing is broken'}"
        yield from (f"  {one_line(sentence)}" for sentence in sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Make table, plots, answer and report of studies anew; nothing is measured."""

    # Results folder of one study that has ended, or a folder that holds several.
    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    max_rows: int = 20  # Rows of each table that is printed at most.
    # Write every panel as PDF without a head too, as wide as a column of a paper (3.5 inches;
    # fronts and courses of searches as wide as two), and every table for LaTeX (booktabs).
    paper: bool = False
    # Put energies of sweeps to this temperature of the GPU, in degrees Celsius, by how power and
    # temperature of repeats differ.
    reference_temperature_c: float | None = None

    def run(self) -> int:
        """Report every study below the folder, and print what it found; 1 if one could not be."""
        check_range("--max-rows", self.max_rows, 1, _MOST_ROWS)
        _, left_out = _of_each(self.results_dir, self._report)
        return int(bool(left_out))

    def _report(self, folder: Path) -> None:
        from joulelab.study.conclude import report_anew

        with StudyLock(folder):
            drawn = report_anew(
                ResultStore(folder),
                max_rows=self.max_rows,
                paper=self.paper,
                reference_temperature_c=self.reference_temperature_c,
            )
        for path in drawn:
            print(f"  {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Printing):
    """Say how many repeats show a change between two configurations, by a paired t test.

    Every repeat is a block that measures both. How much single runs scatter comes from the repeats
    of an earlier study, about the fit that its report has; or from --scatter.
    """

    # Results folder of a pilot or an earlier study, or a folder that holds several.
    results_dir: tyro.conf.Positional[Path | None] = None
    # Relative standard deviation of single runs (0.01 is one percent), in place of a study.
    scatter: float | None = None
    change: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05)  # Relative changes that are to be seen.
    power: float = 0.8  # Probability of seeing a change that is there.
    alpha: float = 0.05  # Probability of seeing one that is not.

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
                repeats_to_see(change, scatter.relative_sd, power=self.power, alpha=self.alpha)
                for change in self.change
            ]
            for name, scatter in scatters.items()
        }
        found = {
            "change": self.change,
            "scatter": {name: each.relative_sd for name, each in scatters.items()},
            "dof": {name: each.dof for name, each in scatters.items()},
            "repeats": repeats,
        }
        self.show(found, lambda: self._shown(scatters, repeats))
        return 0

    def _scatters(self) -> Mapping[str, RepeatScatter]:
        if (self.scatter is None) == (self.results_dir is None):
            raise ConfigError("Either a results folder or --scatter is required, not both.")
        if self.scatter is not None:
            return {"runs": RepeatScatter(relative_sd=self.scatter, dof=None)}
        roots = [] if self.results_dir is None else [self.results_dir]
        return repeat_scatters([m for m in read_studies(*roots) if m.valid])

    def _shown(
        self, scatters: Mapping[str, RepeatScatter], repeats: Mapping[str, Sequence[int | None]]
    ) -> tuple[str, Table]:
        heads = [f"{name} (scatter {_scatter_words(each)})" for name, each in scatters.items()]
        seen = f"{100 * self.power:g} % of the time, at a level of {100 * self.alpha:g} %"
        table = Table("change", *heads)
        for row, change in enumerate(self.change):
            cells = [str(found[row] or f"> {_MOST_REPEATS}") for found in repeats.values()]
            table.add_row(f"{100 * change:g} %", *cells)
        return f"Repeats that show a change {seen}:", table


def _scatter_words(scatter: RepeatScatter) -> str:
    share = f"{100 * scatter.relative_sd:.2g} %"
    return share if scatter.dof is None else f"{share}, {counted(scatter.dof, 'degree')} of freedom"


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


def _power(effect: float, num_pairs: int, alpha: float) -> float:
    """Return the power of a paired t test; the effect is over the scatter of differences."""
    from statsmodels.stats.power import TTestPower  # takes half a second

    return float(TTestPower().power(effect, num_pairs, alpha))
