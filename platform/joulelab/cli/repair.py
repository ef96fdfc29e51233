"""``joulelab repair``: set aside what is broken in results folders."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.cli.errors import one_line
from joulelab.tracking.repair import ENDING, repair
from joulelab.tracking.store import study_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Set aside what is broken in a results folder; nothing is thrown away.

    Broken lines go into a file that ends in .broken beside their own, and so do, as a whole, traces
    and other files that cannot be read.

    Attributes:
        results_dir: Results folder of one study, or a folder that holds several.
        json: Print one JSON object instead of text.
    """

    results_dir: tyro.conf.Positional[Path]
    json: bool = False

    def run(self) -> int:
        """Repair every study below the folder and tell what was set aside.

        Returns:
            0.

        Raises:
            ConfigError: If there are no results, or a study is under way.
            TrackingError: If a file cannot be read or written.
        """
        found = {str(folder): repair(folder) for folder in study_folders(self.results_dir)}
        if self.json:
            print(json.dumps(found, indent=2))
            return 0
        for folder, sentences in found.items():
            print(f"{folder}: {_in_words(len(sentences))}")
            for sentence in sentences:
                print(f"  {one_line(sentence)}")
        return 0


def _in_words(number: int) -> str:
    return f"{number} set aside in files that end in {ENDING}" if number else "nothing is broken"
