"""``joulelab report``: table, plots and report of searches, made anew from their results."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.tracking.store import ResultStore, study_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Make table, plots, answer and report of a search anew; nothing is measured.

    Attributes:
        results_dir: Results folder of one search that has ended, or a folder that holds several.
        max_rows: Rows of the table that is printed at most.
    """

    results_dir: tyro.conf.Positional[Path]
    max_rows: int = 20

    def run(self) -> int:
        """Write the files of every search below the folder, and print what it found.

        Returns:
            0.

        Raises:
            ConfigError: If there are no results.
            TrackingError: If one of them is no search that has ended, or cannot be read.
        """
        from joulelab.analysis.search_conclude import print_search, write_search
        from joulelab.analysis.search_log import read_log, result_of

        for folder in study_folders(self.results_dir):
            store = ResultStore(folder)
            result = result_of(read_log(store), store.read())
            known = store.read_answer()
            runs = {each.measurement_id: dict(each.values) for each in known.runs} if known else {}
            write_search(store, result, runs)
            print_search(folder, result, max_rows=self.max_rows)
        return 0
