"""MLflow's tables in a real PostgreSQL: many writers, and a server that dies."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from postgresql_server import PostgresqlServer, binary, free_port
from synthetic_results import header, record

from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_batch import MOST
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.vocabulary import metrics

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
pytest.importorskip("psycopg")
_log = logging.getLogger(__name__)
if binary("initdb") is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

_IDS = "SELECT value FROM tags WHERE key = 'joulelab.measurement_id'"
_WRITERS = """
import os
import sys
import time
from pathlib import Path
import mlflow.store.tracking.sqlalchemy_store  # once for all: it takes seconds
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore

def write(folder):
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        report = deliver(ResultStore(Path(folder)), MlflowTracker(sys.argv[1]))
        print(report.error, file=sys.stderr, flush=True)
        if not report.num_left or time.monotonic() > give_up_s:
            os._exit(min(report.num_left, 99))
        time.sleep(0.5)

folders = sys.argv[2:]
for folder in folders:
    if os.fork() == 0:
        write(folder)
sys.exit(any([os.wait()[1] for folder in folders]))
"""


@pytest.fixture
def server():
    started = PostgresqlServer()
    yield started
    started.stop()


def stored(folder, *, num, **changes):
    """A study's folder with measurements, none of them delivered."""
    store = ResultStore(folder)
    store.write_study(header(sweep_id=folder.name))
    ids = [f"{folder.name}-{i}" for i in range(num)]
    for name in ids:
        store.append(record(measurement_id=name, **changes))
    return store, ids


def test_four_who_write_to_a_fresh_database_at_once_lose_nothing(server, tmp_path):
    """Three of four failed: each made the same tables."""
    address, studies = server.address(tmp_path / "files"), {}
    for k in range(4):
        studies[tmp_path / f"study-{k}"] = stored(tmp_path / f"study-{k}", num=5)[1]

    done = subprocess.run(
        [sys.executable, "-c", _WRITERS.replace("PATIENCE_S", "0"), address, *studies],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    there = sorted(name for (name,) in server.asked(_IDS))
    assert there == sorted(name for ids in studies.values() for name in ids)
    assert not Path(tmp_path / "mlruns").exists()
    assert len(list((tmp_path / "files").glob("*/*/artifacts/power_trace/*"))) == len(there)


def await_runs(server, num, writers):
    """Wait until so many runs are in the tables, of which there are none at first."""
    while server.asked("SELECT to_regclass('tags')") == [(None,)] or len(server.asked(_IDS)) < num:
        assert writers.poll() is None, writers.stderr.read()
        time.sleep(0.2)


@pytest.mark.slow
def test_600_runs_of_four_writers_are_there_once_though_the_server_was_killed(server, tmp_path):
    """With 50 metrics each; the server is back when a writer has noticed, in the midst of it."""
    num_own = 50 - len(metrics(record().measurement))
    own = tuple((f"own_{number:02}", 1.5 * number) for number in range(num_own))
    address, ids, folders = server.address(tmp_path / "files"), [], []
    for k in range(4):
        folders.append(tmp_path / f"study-{k}")
        ids += stored(folders[k], num=150, figures=own)[1]

    start_s = time.monotonic()
    writers = subprocess.Popen(
        [sys.executable, "-c", _WRITERS.replace("PATIENCE_S", "120"), address, *folders],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    await_runs(server, 180, writers)
    num_before = len(server.asked(_IDS))
    server.kill()
    assert any("does not answer" in line for line in writers.stderr)
    server.start()
    messages = writers.communicate()[1]

    assert writers.returncode == 0, messages
    assert num_before < len(ids) == 600
    assert sorted(name for (name,) in server.asked(_IDS)) == sorted(ids)
    of_runs = (
        "SELECT min(n), max(n) FROM (SELECT count(*) n FROM latest_metrics GROUP BY run_uuid) t"
    )
    assert server.asked(of_runs) == [(50, 50)]
    _log.info("%.0f runs/s, the pause included.", len(ids) / (time.monotonic() - start_s))


def test_a_database_that_dies_meanwhile_is_written_to_again_without_doubles(server, tmp_path):
    store, ids = stored(tmp_path / "study", num=MOST + 3)
    tracker = MlflowTracker(server.address(tmp_path / "files"))
    log_batch, done = tracker.log_batch, []

    def log_until_it_dies(results):
        if done:
            server.kill()
        done.append(results)
        log_batch(results)

    tracker.log_batch = log_until_it_dies
    report = deliver(store, tracker)
    server.start()
    again = deliver(store, MlflowTracker(server.address(tmp_path / "files")))

    assert report.num_left == 3
    assert "does not answer" in report.error
    assert "ann" not in report.error
    assert again.num_left == 0
    assert sorted(name for (name,) in server.asked(_IDS)) == sorted(ids)


def test_the_server_of_a_team_keeps_what_studies_send_to_it(server, tmp_path):
    (store, ids), port = stored(tmp_path / "study", num=2), free_port()
    script = Path(__file__).parents[2] / "cluster/mlflow_server.sh"
    settings = {
        "DATABASE": server.address("").partition("?")[0],
        "ARTIFACTS": f"{tmp_path / 'files'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [script, "--port", f"{port}", "--workers", "1"],
            env={**os.environ, **settings},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        report = delivered(store, f"http://127.0.0.1:{port}", give_up_s=150)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(120)

    assert report.num_left == 0, f"{report.error} {(tmp_path / 'log').read_text()}"
    assert sorted(name for (name,) in server.asked(_IDS)) == sorted(ids)
    assert len(list((tmp_path / "files").glob("*/*/artifacts/power_trace/*"))) == len(ids)


def delivered(store, address, *, give_up_s):
    """Deliver as soon as the server answers."""
    until_s = time.monotonic() + give_up_s
    while (report := deliver(store, MlflowTracker(address))).num_left:
        if time.monotonic() > until_s:
            break
        time.sleep(0.5)
    return report
