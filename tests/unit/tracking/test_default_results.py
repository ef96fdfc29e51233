"""One folder for results, whoever makes them and whoever looks for them."""

import os
import subprocess
from pathlib import Path

import pytest
from synthetic_results import record

from joulelab.cli.many_studies import PolicyCommand
from joulelab.cli.results import Repair, Report, Sync
from joulelab.cli.watch import Ui
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore, study_folders
from joulelab_actors.laboratory import Laboratory

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("user", [Laboratory, Repair, Report, Sync, Ui])
def test_everybody_writes_and_looks_in_the_same_folder(user):
    """Results of jobs lay in ``~/joulelab-results``, those of ``make run`` in ``results/``."""
    assert user().results_dir == DEFAULT_RESULTS


def test_policies_look_there_too():
    assert PolicyCommand().results_dirs == (DEFAULT_RESULTS,)


@pytest.mark.parametrize(
    ("arguments", "named"), [([], []), (["RESULTS=/there"], ["--results-dir", "/there"])]
)
def test_make_run_names_a_folder_only_if_it_was_given_one(arguments, named):
    command = ["make", "--dry-run", "--assume-old=.venv/.ready", "run", *arguments]
    of_make = ("MAKE", "ARGS", "RESULTS")
    by_hand = {name: value for name, value in os.environ.items() if not name.startswith(of_make)}

    done = subprocess.run(
        command, cwd=ROOT, env=by_hand, capture_output=True, text=True, check=True
    )

    assert done.stdout.split()[-1 - len(named) :] == ["experiments/dvfs_sweep.py", *named]


def test_a_home_in_a_folders_name_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    ResultStore(tmp_path / "joulelab-results" / "one").append(record())

    assert study_folders(DEFAULT_RESULTS) == [tmp_path / "joulelab-results" / "one"]
