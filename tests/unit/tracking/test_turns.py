"""Writers of one embedded store take turns, and none of them is left over."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from synthetic_results import header, record
from waiting import until

from joulelab.errors import TrackingError
from joulelab.tracking import mlflow_database, mlflow_store, mlflow_tracker
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_database import check_reachable, turn
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")


def waits(path):
    """Whether somebody has the place of the next in turn."""
    with path.with_name(f"{path.name}-next").open("a") as file:
        return not mlflow_database._is_taken(file)


def test_who_had_the_turn_has_it_again_only_after_who_waits(tmp_path):
    """With one lock it would: the other looks again some milliseconds later."""
    path, order = tmp_path / "mlflow.db", []

    def once():
        with turn(path):
            order.append("other")

    other = threading.Thread(target=once)
    with turn(path):
        order.append("first")
        other.start()
        until(lambda: waits(path))
    with turn(path):
        order.append("first")
    other.join()

    assert order == ["first", "other", "first"]


def test_a_turn_that_does_not_come_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "mlflow.db"
    monkeypatch.setattr(mlflow_database, "TURN_S", 0.1)

    with (
        turn(path),
        pytest.raises(TrackingError, match=r"within 0.1 s.*`joulelab sync`"),
        turn(path),
    ):
        pass

    with turn(path):  # who gave up keeps nothing from others
        pass


def test_a_process_that_is_killed_has_no_turn_any_longer(tmp_path):
    path = tmp_path / "mlflow.db"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from joulelab.tracking.mlflow_database import turn\n"
        "with turn(Path(sys.argv[1])): print('mine', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        holder.kill()
    start_s = time.monotonic()

    with turn(path):
        pass

    assert time.monotonic() - start_s < mlflow_database.TURN_S / 2


def test_a_folder_that_takes_no_locks_knows_no_turns(tmp_path):
    with turn(None), turn(tmp_path / "absent" / "mlflow.db"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def slow(monkeypatch):
    """Let each batch hold the database for longer than anybody waits for it."""
    impatient = partial(check_reachable, patience_s=0.05)
    monkeypatch.setattr(mlflow_store, "check_reachable", impatient)
    monkeypatch.setattr(mlflow_tracker, "MOST", 2)

    def hold(connection, cursor, statement, *rest):
        if statement.startswith("INSERT INTO metrics"):
            time.sleep(0.2)

    event.listen(Engine, "before_cursor_execute", hold)
    yield
    event.remove(Engine, "before_cursor_execute", hold)


@pytest.mark.slow
def test_writers_that_hold_the_store_for_longer_than_others_look_leave_nothing(
    store_uri, tmp_path, slow
):
    """On a machine at load 40 four writers left hundreds of 2,000 runs to be delivered later."""
    stores = [ResultStore(tmp_path / name) for name in ("a", "b", "c")]
    for store in stores:
        store.write_study(header(name=store.folder.name, sweep_id=store.folder.name))
        for number in range(6):
            store.append(record(clock_mhz=600 + 15 * number))

    with ThreadPoolExecutor(len(stores)) as pool:
        reports = list(pool.map(lambda store: deliver(store, MlflowTracker(store_uri)), stores))

    assert [(each.num_delivered, each.error) for each in reports] == [(6, None)] * len(stores)
