"""``joulelab sync``: bring results that a tracking store missed to it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from joulelab.cli.errors import one_line
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.reach import usable_uri
from joulelab.tracking.store import ResultStore, study_folders
from joulelab.tracking.sync import DeliveryReport, deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Deliver the results of a folder to MLflow; what is there already is left alone.

    Attributes:
        results_dir: Results folder of one study, or a folder that holds several.
        tracking_uri: MLflow store: sqlite:////absolute/path.db or the address of a server.
            By default the one that each study names, else mlflow.db in the results folder.
            Passwords are not kept: a store that has one is to be named again.
        json: Print one JSON object instead of text.
    """

    results_dir: tyro.conf.Positional[Path]
    tracking_uri: str | None = None
    json: bool = False

    def run(self) -> int:
        """Deliver every study below the folder.

        Returns:
            0 if all of it was delivered, 1 if something is left.

        Raises:
            ConfigError: If there are no results, or a store cannot be any or lacks its password.
            TrackingError: If results cannot be read.
        """
        reports = {str(folder): self._deliver(folder) for folder in study_folders(self.results_dir)}
        if self.json:
            told = {folder: asdict(report) for folder, report in reports.items()}
            print(json.dumps(told, indent=2))
        else:
            for folder, report in reports.items():
                print(f"{folder}: {_in_words(report)}")
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


def _in_words(report: DeliveryReport) -> str:
    said = f"delivered {report.num_delivered} to {report.target}"
    return f"{said}, {report.num_left} left: {one_line(report.error)}" if report.error else said
