import errno
import os
import signal
import subprocess
import sys

import pytest

from joulelab.tracking import study_lock
from joulelab.tracking.study_lock import StudyLock

HOLD = """
import os, subprocess, sys, time
from pathlib import Path
from joulelab.tracking.study_lock import StudyLock

with StudyLock(Path(sys.argv[1])):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    fork = os.fork()
    if not fork:
        time.sleep(60)
    print(child.pid, fork, flush=True)
    sys.stdin.read()
"""
TAKE = """
import sys
from pathlib import Path
from joulelab.cli.errors import exit_code
from joulelab.tracking.study_lock import StudyLock

def run():
    with StudyLock(Path(sys.argv[1])):
        return 0

sys.exit(exit_code(run, name="second"))
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the study, with a child and a fork of its own."""
    words = [sys.executable, "-c", HOLD, str(tmp_path / "study"), "--tracking-uri=http://u:pw@h"]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as process:
        children = [int(word) for word in process.stdout.readline().split()]
        yield process
        process.kill()
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def take(folder):
    return subprocess.run(
        [sys.executable, "-c", TAKE, str(folder)], capture_output=True, text=True, check=False
    )


def test_a_second_process_is_told_in_one_line_who_has_the_study(tmp_path, holder):
    """Two drivers of one study doubled 61 of 61 results, and both said that all was well."""
    second = take(tmp_path / "study")

    assert second.returncode == 2
    assert len(second.stderr.splitlines()) == 1
    assert f"process {holder.pid} on " in second.stderr
    assert "-c" in second.stderr
    assert "pw" not in second.stderr


def test_a_killed_holder_frees_the_study_though_its_children_live(tmp_path, holder):
    holder.kill()
    holder.wait()

    assert take(tmp_path / "study").returncode == 0


def test_a_holder_that_ends_leaves_no_lock_and_no_empty_folder(tmp_path, holder):
    holder.stdin.close()
    holder.wait()

    assert list(tmp_path.iterdir()) == []


def test_the_holder_may_take_its_study_again(tmp_path):
    with StudyLock(tmp_path), StudyLock(tmp_path):
        pass

    assert take(tmp_path).returncode == 0


def test_everybody_may_read_who_has_a_study_and_nobody_else_write_it(tmp_path):
    before = os.umask(0)
    try:
        with StudyLock(tmp_path):
            modes = [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()]
    finally:
        os.umask(before)

    assert modes == [0o644]


def test_a_folder_with_results_stays(tmp_path):
    with StudyLock(tmp_path / "study"):
        (tmp_path / "study" / "study.json").write_text("{}")

    assert [path.name for path in (tmp_path / "study").iterdir()] == ["study.json"]


def test_a_file_system_without_locks_is_said_and_does_not_stop_the_study(
    tmp_path, monkeypatch, caplog
):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(study_lock, "flock", refuse)

    with StudyLock(tmp_path):
        pass

    assert "No lock on" in caplog.text


def test_a_lock_whose_file_was_taken_away_meanwhile_is_no_lock(tmp_path, monkeypatch):
    """The first unlinks its file while a second waits to lock it: a third would make another."""
    real, calls = study_lock.flock, []

    def late(descriptor, how):
        if not calls:
            (tmp_path / "lock").unlink()
        calls.append(descriptor)
        real(descriptor, how)

    monkeypatch.setattr(study_lock, "flock", late)

    with StudyLock(tmp_path):
        second = take(tmp_path)

    assert second.returncode == 2
    assert len(calls) == 2
