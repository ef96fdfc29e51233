"""``joulelab report``: tables, plots and reports of studies, made anew from their results."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.core.bounds import check_range
from joulelab.tracking.store import ResultStore, study_folders
from joulelab.tracking.study_lock import StudyLock

_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Make table, plots, answer and report of studies anew; nothing is measured.

    Attributes:
        results_dir: Results folder of one study that has ended, or a folder that holds several.
        max_rows: Rows of each table that is printed at most.
    """

    results_dir: tyro.conf.Positional[Path]
    max_rows: int = 20

    def run(self) -> int:
        """Write the files of every study below the folder, and print what it found.

        Returns:
            0.

        Raises:
            ConfigError: If there are no results, or their study is under way.
            TrackingError: If one of them is of another kind, has not ended, or cannot be read.
        """
        check_range("--max-rows", self.max_rows, 1, _MOST_ROWS)
        from joulelab.analysis.retell import retell

        for folder in study_folders(self.results_dir):
            with StudyLock(folder):
                retell(ResultStore(folder), max_rows=self.max_rows)
        return 0
