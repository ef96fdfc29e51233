"""Results folders that several machines share, by file systems without locks or with local ones."""

import errno
import os
import socket
import subprocess
import sys

import pytest
from mount_tables import mounted

from joulelab.errors import ConfigError
from joulelab.tracking import durable, study_lock
from joulelab.tracking.durable import write_whole
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.tracking.study_lock import StudyLock, default_store, has_local_locks, kind_of

HOLD_WITHOUT_LOCKS = """
import errno, sys
from pathlib import Path
from joulelab.tracking import study_lock

def refuse(descriptor, how):
    raise OSError(errno.ENOLCK, "No locks available")

study_lock.flock = refuse
with study_lock.StudyLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def refuse(descriptor, how):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.fixture
def without_locks(monkeypatch):
    monkeypatch.setattr(study_lock, "flock", refuse)


@pytest.fixture
def mount(tmp_path, monkeypatch):
    def mount(folder, kind, options="rw"):
        return mounted(folder, kind, options, tmp_path / "proc", monkeypatch)

    return mount


@pytest.fixture
def holder(tmp_path):
    words = [sys.executable, "-c", HOLD_WITHOUT_LOCKS, str(tmp_path)]
    with subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_without_locks_a_process_of_this_machine_still_keeps_others_out(
    tmp_path, without_locks, holder
):
    with (
        pytest.raises(ConfigError, match=f"process {holder.pid} on "),
        StudyLock(tmp_path),
    ):
        pass

    holder.kill()
    holder.wait()
    with StudyLock(tmp_path):
        assert study_lock.holder_of(tmp_path).pid == os.getpid()
    assert not (tmp_path / "lock").exists()


def test_without_locks_the_holder_may_take_its_study_again(tmp_path, without_locks):
    with StudyLock(tmp_path):
        with StudyLock(tmp_path):
            pass

        assert study_lock.holder_of(tmp_path).pid == os.getpid()


def test_without_locks_one_is_told_who_had_the_study_on_another_machine(
    tmp_path, without_locks, monkeypatch, caplog
):
    """Whether that process still runs, nobody here can know."""
    monkeypatch.setattr(socket, "gethostname", lambda: "n1")
    elsewhere = StudyLock(tmp_path)
    elsewhere.__enter__()
    monkeypatch.setattr(socket, "gethostname", lambda: "n2")

    with StudyLock(tmp_path):
        pass

    assert f"Make sure that it has ended: process {os.getpid()} on n1" in caplog.text


@pytest.mark.parametrize(
    ("options", "local"),
    [
        ("nfs4 rw,vers=4.2,local_lock=none", False),
        ("nfs rw,vers=3,nolock,local_lock=all", True),
        ("nfs rw,vers=3,local_lock=flock", True),
        ("nfs rw,vers=3,local_lock=posix", False),
        ("lustre rw,flock", False),
        ("lustre rw,localflock", True),
    ],
)
def test_locks_that_other_machines_do_not_see_are_said(mount, tmp_path, caplog, options, local):
    """``flock`` succeeds there, and a driver on another node has the same lock."""
    kind, _, options = options.partition(" ")
    shared = mount(tmp_path / "shared", kind, options)

    with StudyLock(shared / "study"):
        pass

    assert has_local_locks(shared / "study") is local
    assert ("locks are not seen by other machines" in caplog.text) is local


def test_the_innermost_mount_of_a_folder_says_its_kind_behind_links_too(mount, tmp_path):
    shared = mount(tmp_path / "shared", "lustre")
    (tmp_path / "link").symlink_to(shared)

    assert kind_of(tmp_path / "link" / "not" / "yet") == "lustre"
    assert kind_of(tmp_path / "other") == "ext4"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "lustre"])
def test_an_sqlite_store_on_a_file_system_of_several_machines_is_refused(mount, tmp_path, kind):
    shared = mount(tmp_path / "shared", kind)

    with pytest.raises(ConfigError, match=f"is on {kind}, where it may break. Give --tracking-uri"):
        usable_uri(f"sqlite:///{shared}/mlflow.db")

    assert usable_uri(f"sqlite:///{tmp_path}/mlflow.db")
    assert usable_uri("http://127.0.0.1:5000")


def test_by_default_results_on_such_a_file_system_have_no_store_and_the_log_says_so_once(
    mount, tmp_path, caplog
):
    shared = mount(tmp_path / "shared", "nfs4")

    assert [default_store(shared), default_store(shared)] == [None, None]
    assert default_store(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert caplog.text.count("MLflow gets nothing.") == 1


def test_two_nodes_whose_processes_have_one_number_write_drafts_of_their_own(tmp_path, monkeypatch):
    """In containers numbers are small: both wrote into one draft, and half of each was kept."""
    drafts = []
    real = os.fsync
    monkeypatch.setattr(
        durable.os, "fsync", lambda file: (drafts.extend(tmp_path.glob(".*.tmp")), real(file))[1]
    )

    for host in ("pod-a", "pod-b"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        write_whole(tmp_path / "answer.json", host)

    assert len({draft.name for draft in drafts}) == 2
    assert not list(tmp_path.glob(".*.tmp"))
