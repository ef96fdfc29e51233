"""Two drivers of one study, a Ray that dies or does not start, and what a password is seen by."""

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from actor_fixtures import trials

from joulelab.tracking.store import ResultStore

SWEEP = Path(__file__).parents[2] / "experiments" / "dvfs_sweep.py"


@pytest.fixture
def words(tmp_path, guard_socket):
    """A sweep with a Ray of its own that takes a minute."""
    return [
        sys.executable, str(SWEEP), "gemm", "--study", "sweep", "--num-gpus", "1",
        "--mode", "baseline", "--repeats", "5000", "--procedure.window-s", "0.1",
        "--tracking-uri", "none", "--results-dir", str(tmp_path / "results"),
        "--store", str(tmp_path / "driver"), "--guard-socket", str(guard_socket),
    ]  # fmt: skip


@pytest.fixture
def environment(short_folder):
    alone = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    paths = os.pathsep.join(str(SWEEP.parents[1] / part) for part in ("platform", "actors"))
    return alone | {"RAY_TMPDIR": str(short_folder), "PYTHONPATH": paths}


@pytest.fixture
def driver(words, environment, tmp_path):
    """That sweep, once it has a result."""
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while not any((tmp_path / "results").rglob("*.jsonl")):
            assert process.poll() is None
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        yield process
        for each in [process, *family]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_a_second_driver_is_refused_at_once_and_a_dead_ray_ends_the_first_with_one_line(
    driver, words, environment, tmp_path
):
    """Both drivers measured all of it and ended well; without its head the first hung for 60 s."""
    second = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    (head,) = (
        child for child in psutil.Process(driver.pid).children() if child.name() == "gcs_server"
    )
    head.kill()
    _, said = driver.communicate(timeout=50)

    assert second.returncode == 2
    assert len(second.stderr.splitlines()) == 1
    assert f"process {driver.pid} on " in second.stderr
    assert "Starting Ray" not in second.stderr
    assert driver.returncode == 1
    assert said.splitlines()[-1].startswith("dvfs_sweep: Ray is gone: ")
    assert said.splitlines()[-1].endswith("with --study sweep to go on.")
    names = Counter(m.trial for m in ResultStore(tmp_path / "results" / "sweep").read())
    assert set(names.values()) == {1}


def test_a_ray_that_does_not_start_is_one_line_that_says_where_to_look(words, environment):
    place = f"/tmp/{'x' * 100}"  # too long for Ray's sockets

    done = subprocess.run(
        words,
        env=environment | {"RAY_TMPDIR": place},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    announced, said = done.stderr.splitlines()
    assert announced.startswith("Starting Ray")
    assert said.startswith("dvfs_sweep: Ray could not be started on this machine: ")
    assert f"{place}/ray" in said


def test_a_cluster_that_is_gone_is_one_line_at_once(words, environment, tmp_path):
    done = subprocess.run(
        words,
        env=environment | {"RAY_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    announced, said = done.stderr.splitlines()
    assert "127.0.0.1:1" in announced
    assert "No Ray answers at RAY_ADDRESS=127.0.0.1:1" in said
    assert not (tmp_path / "results").exists()


def test_a_password_of_the_tracking_store_is_written_nowhere(study, tmp_path, short_folder):
    """It stood in study.json, which everybody may read, in the report and in its command."""
    uri = "http://ann:hunter2@127.0.0.1:9"

    summary, store = study(trials()[:1], tracking_uri=uri)

    told = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    logs = b"".join(
        path.read_bytes() for path in short_folder.rglob("session_*/logs/*") if path.is_file()
    )
    assert summary.complete
    assert "http://***@127.0.0.1:9" in repr(summary.delivery)
    assert "hunter2" not in repr(summary)
    assert b"hunter2" not in told
    assert b"hunter2" not in logs
    assert store.read_study().tracking_uri == "http://***@127.0.0.1:9"
