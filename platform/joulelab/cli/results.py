"""Commands on results that are there: deliver them to MLflow, mend them, report them anew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from joulelab.cli.terminal import Printing
from joulelab.core.bounds import check_range
from joulelab.errors import one_line
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.delivery import DeliveryReport, deliver
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.repair import ENDING, repair
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore, study_folders
from joulelab.tracking.study_lock import StudyLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Printing):
    """Deliver the results of a folder to MLflow; what is there already is left alone.

    Attributes:
        results_dir: Results folder of one study, or a folder that holds several.
        tracking_uri: MLflow store: sqlite:////absolute/path.db or the address of a server.
            By default the one that each study names, else mlflow.db in the results folder.
            Passwords are not kept: a store that has one is to be named again.
    """

    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    tracking_uri: str | None = None

    def run(self) -> int:
        """Deliver every study below the folder; 1 if something is left."""
        reports = {str(folder): self._deliver(folder) for folder in study_folders(self.results_dir)}
        self.show(
            {folder: asdict(report) for folder, report in reports.items()},
            lambda: [f"{folder}: {_delivery_words(each)}" for folder, each in reports.items()],
        )
        return int(any(report.error or report.num_left for report in reports.values()))

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

    Attributes:
        results_dir: Results folder of one study, or a folder that holds several.
    """

    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS

    def run(self) -> int:
        """Repair every study below the folder and print what was set aside."""
        found = {str(folder): repair(folder) for folder in study_folders(self.results_dir)}
        self.show(found, lambda: _set_aside(found))
        return 0


def _set_aside(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for folder, sentences in found.items():
        aside = f"{len(sentences)} set aside in files that end in {ENDING}"
        yield f"{folder}: {aside if sentences else 'nothing is broken'}"
        yield from (f"  {one_line(sentence)}" for sentence in sentences)


_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Make table, plots, answer and report of studies anew; nothing is measured.

    Attributes:
        results_dir: Results folder of one study that has ended, or a folder that holds several.
        max_rows: Rows of each table that is printed at most.
        paper: Write every panel as PDF without a head too, as wide as a column of a paper (3.5
            inches; fronts and courses of searches as wide as two).
        reference_temperature_c: Put energies of sweeps to this temperature of the GPU, in degrees
            Celsius, by how power and temperature of repeats differ.
    """

    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    max_rows: int = 20
    paper: bool = False
    reference_temperature_c: float | None = None

    def run(self) -> int:
        """Write the files of every study below the folder, and print what it found."""
        check_range("--max-rows", self.max_rows, 1, _MOST_ROWS)
        from joulelab.analysis.conclude import report_anew

        for folder in study_folders(self.results_dir):
            with StudyLock(folder):
                drawn = report_anew(
                    ResultStore(folder),
                    max_rows=self.max_rows,
                    paper=self.paper,
                    reference_temperature_c=self.reference_temperature_c,
                )
            for path in drawn:
                print(f"  {path}")
        return 0
