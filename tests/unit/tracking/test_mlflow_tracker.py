import http.server
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.exceptions import MlflowException
from synthetic_results import STUDY, energy_j, header, measurement, record, sweep

from joulelab.cli.results import Repair, Report, Sync
from joulelab.core.measurement import Finding
from joulelab.core.record import Record
from joulelab.errors import TrackingError
from joulelab.study.conclude import conclude_sweep
from joulelab.tracking.addresses import database_path, embedded_uri
from joulelab.tracking.delivery import Delivery, deliver, only_deliverer
from joulelab.tracking.mlflow_batch import ended_run
from joulelab.tracking.mlflow_database import check_reachable
from joulelab.tracking.mlflow_store import experiment_id, open_client, publish
from joulelab.tracking.mlflow_tracker import FinishedRun, MlflowTracker, log_run
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, ChartPoint, RunMetrics

# MLflow 3.17 asks SQLAlchemy 2.1 for a loader strategy that is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")


@pytest.fixture
def uri(store_uri):
    return store_uri


def begun(uri, **changes):
    tracker = MlflowTracker(uri)
    tracker.begin(header(**changes))
    return tracker


def runs_of(uri, study=STUDY):
    """Return the runs of a study: the parents, and the children."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(study)
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    return parents, [run for run in runs if run not in parents]


def test_a_measurement_is_a_nested_run_with_everything_in_it(uri, tmp_path):
    store = ResultStore(tmp_path / "study")
    store.append(record(clock_mhz=1500))
    measured = store.read()[0]
    tracker = begun(uri)

    tracker.log(measured, store.trace_path(measured.measurement_id))

    (parent,), (child,) = runs_of(uri)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.params["sm_clock_mhz"] == "1500"
    assert child.data.params["power_limit_w"] == "default"
    assert child.data.metrics["energy_per_unit_j"] == pytest.approx(energy_j(1500))
    assert child.data.tags["device.uuid"] == "SIM-invented-0"
    assert child.data.tags["joulelab.measurement_id"] == measured.measurement_id
    assert child.info.status == "FINISHED"
    assert child.info.end_time - child.info.start_time == pytest.approx(
        1000 * (measured.windows[-1].start_s + measured.windows[-1].duration_s), abs=1
    )
    kept = Path(child.info.artifact_uri.removeprefix("file://")) / "power_trace"
    assert [file.name for file in kept.iterdir()] == [f"{measured.measurement_id}.parquet"]
    assert kept.is_relative_to(tmp_path)


def test_an_invalid_measurement_is_a_failed_run_with_its_reason(uri):
    lost = Finding(reason="device_lost", detail="The device fell off the bus.")
    tracker = begun(uri)

    tracker.log(replace(measurement(findings=[lost]), windows=(), idle=None), None)

    _, (child,) = runs_of(uri)
    assert child.info.status == "FAILED"
    assert child.data.tags["invalid_reasons"] == "device_lost"
    assert "energy_per_unit_j" not in child.data.metrics


@pytest.mark.parametrize(("succeeded", "status"), [(True, "FINISHED"), (False, "FAILED")])
def test_a_run_that_is_over_is_as_long_as_it_was_and_keeps_its_file(
    uri, tmp_path, succeeded, status
):
    (tmp_path / "report.html").write_text("<html></html>")

    log_run(
        uri,
        FinishedRun(
            experiment="programs", name="mine", started_at="2026-01-01T00:00:00+00:00",
            duration_s=2.5, params={"batch": 8}, metrics={"energy_j": 7.0}, tags={},
            file=tmp_path / "report.html", succeeded=succeeded,
        ),
    )  # fmt: skip

    (run,), _ = runs_of(uri, "programs")
    assert (run.info.end_time - run.info.start_time, run.info.status) == (2500, status)
    assert (run.data.params, run.data.metrics) == ({"batch": "8"}, {"energy_j": 7.0})
    assert (Path(run.info.artifact_uri.removeprefix("file://")) / "report.html").exists()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("experiments/energy_search.py", "llama"), "energy search sweep-1"),
        (("/somewhere/dvfs_sweep.py",), "dvfs sweep sweep-1"),
        (("-c",), "study sweep-1"),
        ((), "study sweep-1"),
    ],
)
def test_the_parent_run_is_named_by_what_was_run(uri, command, named):
    """The run of a search was once named a sweep."""
    begun(uri, command=command)

    (parent,), _ = runs_of(uri)
    assert parent.info.run_name == named


def test_the_parent_run_tells_settings_and_answer(uri, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<html></html>")
    tracker = begun(uri)

    tracker.finish(note="1500 MHz saves 20 %.", summary={"saving": 0.2}, files=[report])

    (parent,), _ = runs_of(uri)
    assert parent.data.params == {name: str(value) for name, value in header().settings}
    assert parent.data.metrics == {"saving": 0.2}
    assert parent.data.tags["mlflow.note.content"] == "1500 MHz saves 20 %."
    assert parent.info.status == "FINISHED"
    assert (Path(parent.info.artifact_uri.removeprefix("file://")) / "report.html").exists()


def test_runs_are_compared_by_what_was_asked_for_and_not_by_where_it_is_kept(uri):
    settings = (
        ("lab.guard_socket", "/run/guard.sock"),
        ("lab.results_dir", "/results"),
        ("limits.max_slowdown", None),
        ("axes.batches", ""),
        ("objective", "edp"),
    )
    begun(uri, settings=settings)

    (parent,), _ = runs_of(uri)
    assert parent.data.params == {"objective": "edp"}
    assert parent.data.tags["lab.guard_socket"] == "/run/guard.sock"
    assert parent.data.tags["lab.results_dir"] == "/results"


def point(step, **values):
    return ChartPoint(step=step, values=tuple(values.items()))


def history_of(uri, name):
    from mlflow import MlflowClient

    (parent,), _ = runs_of(uri)
    told = MlflowClient(uri).get_metric_history(parent.info.run_id, name)
    return [(metric.step, metric.value) for metric in sorted(told, key=lambda m: m.step)]


def test_the_course_of_a_study_is_a_curve_of_the_parent_run(uri):
    tracker = begun(uri)

    tracker.chart([point(1, best_cost_ratio=1.0, num_valid=1.0), point(2, best_cost_ratio=0.8)])

    assert history_of(uri, "best_cost_ratio") == [(1, 1.0), (2, 0.8)]
    assert history_of(uri, "num_valid") == [(1, 1.0)]


def test_no_point_of_a_curve_is_there_twice_after_a_restart(uri):
    begun(uri).chart([point(1, best_cost_ratio=1.0), point(2, best_cost_ratio=0.8)])

    for _ in range(2):
        begun(uri).chart([point(n, best_cost_ratio=1.0 / n) for n in (1, 2, 3)])

    assert history_of(uri, "best_cost_ratio") == [(1, 1.0), (2, 0.8), (3, 1 / 3)]


def test_a_point_that_more_repeats_have_moved_is_told_again_and_others_are_not(uri):
    """A sweep that went on showed the curve of its first, interrupted run for ever."""
    begun(uri).chart([replace(point(n, energy_j=8.0), revised=True) for n in (900, 1200)])

    for _ in range(2):
        begun(uri).chart([replace(point(n, energy_j=n / 150), revised=True) for n in (900, 1200)])

    assert history_of(uri, "energy_j") == [(900, 8.0), (900, 6.0), (1200, 8.0)]


def test_a_sweep_is_a_curve_over_the_clock(uri, tmp_path):
    store = ResultStore(tmp_path / "study")
    for each in sweep((900, 1200, 1500), num_boards=1):
        store.append(Record(measurement=each, trace=None))
    store.write_study(header())
    (phase,) = conclude_sweep(store).phases

    deliver(store, MlflowTracker(uri))

    told = history_of(uri, "curve.energy_per_unit_j")
    assert told == [
        (clock_mhz, phase.row(f"{clock_mhz}MHz").figures.energy_per_unit_j)
        for clock_mhz in (900, 1200, 1500)
    ]
    assert len(history_of(uri, "curve.edp_js")) == 3


def test_an_experiment_says_what_it_is_and_opens_on_its_runs(uri):
    """A click on it opened an empty overview of language models."""
    from mlflow import MlflowClient

    begun(uri)

    tags = MlflowClient(uri).get_experiment_by_name(STUDY).tags
    assert tags["mlflow.note.content"].startswith("`experiments/dvfs_sweep.py --repeats 3` began")
    assert "sweep or search of joulelab" in tags["mlflow.note.content"]
    assert tags["mlflow.experimentKind"] == "custom_model_development"


def test_an_experiment_that_another_study_makes_meanwhile_is_taken(uri):
    begun(uri)
    client = open_client(uri)
    there, late = client.get_experiment_by_name(STUDY), iter([None])
    client.get_experiment_by_name = lambda name: next(late, there)

    assert experiment_id(client, uri, STUDY, "") == there.experiment_id


def test_a_description_that_somebody_wrote_is_kept(uri):
    from mlflow import MlflowClient

    begun(uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(STUDY).experiment_id
    client.set_experiment_tag(experiment, "mlflow.note.content", "Ours, of May.")

    begun(uri, sweep_id="another")

    assert client.get_experiment(experiment).tags["mlflow.note.content"] == "Ours, of May."


def test_a_curve_longer_than_one_call_takes_is_whole(uri):
    begun(uri).chart([point(n, a=float(n), b=0.0) for n in range(1, 701)])

    assert len(history_of(uri, "a")) == len(history_of(uri, "b")) == 700


def test_what_only_the_whole_study_knows_of_a_run_is_written_there_once(uri):
    from mlflow import MlflowClient

    tracker = begun(uri)
    tracker.log(measurement(), None)
    known = RunMetrics(measurement_id=measurement().measurement_id, values=(("cost_ratio", 0.75),))

    for _ in range(2):
        begun(uri).amend([known, replace(known, measurement_id="never-delivered")])

    _, (child,) = runs_of(uri)
    assert child.data.metrics["cost_ratio"] == 0.75
    assert len(MlflowClient(uri).get_metric_history(child.info.run_id, "cost_ratio")) == 1
    assert child.data.metrics["energy_per_unit_j"] == pytest.approx(energy_j(2000))


def test_a_search_is_charted_while_it_runs_and_whole_once_it_has_ended(uri, tmp_path):
    store = ResultStore(tmp_path / "search")
    store.write_study(header())
    delivery = Delivery(store, MlflowTracker(uri), header())
    for number in (1, 2, 3):
        measured = record(minute=number)
        store.append(measured)
        # The last point is lost with the process that would have sent it.
        points = [point(number, best_cost_ratio=1.0 / number)] if number < 3 else []
        delivery.offer([measured.measurement], points)
    store.write_answer(
        Answer(
            note="1500 MHz.",
            chart=tuple(point(n, best_cost_ratio=1.0 / n) for n in (1, 2, 3)),
            runs=tuple(
                RunMetrics(measurement_id=m.measurement_id, values=(("cost_ratio", 0.5),))
                for m in store.read()
            ),
        )
    )

    report = delivery.close()

    assert report.error is None
    assert report.num_delivered == 3
    assert history_of(uri, "best_cost_ratio") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert [child.data.metrics["cost_ratio"] for child in runs_of(uri)[1]] == [0.5] * 3


def test_nothing_is_there_twice_after_a_restart(uri):
    for _ in range(2):
        tracker = begun(uri)
        for minute in range(3):
            tracker.log(measurement(minute=minute), None)
            tracker.log(measurement(minute=minute), None)

    parents, children = runs_of(uri)
    assert len(parents) == 1
    assert len(children) == 3


def test_a_run_cut_short_is_completed_not_doubled(uri):
    tracker = begun(uri)
    tracker._new_child(ended_run(measurement(), tracker._about_child(measurement())))

    begun(uri).log_batch([(measurement(), None)])

    _, (child,) = runs_of(uri)
    assert child.info.status == "FINISHED"
    assert "energy_per_unit_j" in child.data.metrics


def test_a_batch_tells_mlflow_what_its_client_would(uri, tmp_path):
    from mlflow import MlflowClient

    store, client = ResultStore(tmp_path / "study"), MlflowClient(uri)
    store.append(record())
    (measured,) = store.read()
    trace = store.trace_path(measured.measurement_id)
    lost = Finding(reason="throttled", detail="5 % of the time.")
    results = [(measured, trace), (measurement(minute=1, findings=[lost]), None)]

    for measurement_, trace_ in results:
        begun(uri, sweep_id="one").log(measurement_, trace_)
    begun(uri, sweep_id="two").log_batch(results)

    def told(run):
        values = run.data.metrics
        history = {name: client.get_metric_history(run.info.run_id, name) for name in values}
        files = client.list_artifacts(run.info.run_id, "power_trace")
        about = {k: v for k, v in run.data.tags.items() if k != "mlflow.parentRunId"}
        info = dict(run.info)
        for own in ("run_id", "run_uuid", "artifact_uri"):
            info.pop(own, None)
        steps = {name: [(m.value, m.step, m.timestamp) for m in h] for name, h in history.items()}
        return about, run.data.params, values, steps, len(files), info

    parents, children = runs_of(uri)
    of_sweep = {
        parent.data.tags["joulelab.sweep_id"]: [
            told(child)
            for child in sorted(children, key=lambda run: run.info.start_time)
            if child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        ]
        for parent in parents
    }
    assert len(of_sweep["two"]) == 2
    assert of_sweep["two"] == of_sweep["one"]


def test_a_batch_is_there_whole_or_not_at_all(uri):
    tracker = begun(uri)
    run = ended_run(measurement(), tracker._about_child(measurement()))

    with pytest.raises(MlflowException, match="UNIQUE"):
        tracker._batches.insert([run, replace(run, name="of the same id")])

    assert runs_of(uri)[1] == []
    tracker._batches.insert([run])
    assert len(runs_of(uri)[1]) == 1


def test_a_batch_whose_commit_was_not_confirmed_is_not_written_again(uri):
    tracker = begun(uri)
    insert = tracker._batches.insert

    def lose_the_answer(runs):
        insert(runs)
        raise ConnectionResetError("by peer")

    tracker._batches.insert = lose_the_answer
    results = [(measurement(minute=minute), None) for minute in range(3)]
    with pytest.raises(TrackingError, match="by peer"):
        tracker.log_batch(results[:2])
    tracker._batches.insert = insert
    tracker.log_batch(results)

    assert len(runs_of(uri)[1]) == 3


def test_two_sweeps_of_a_study_are_two_parents_of_one_experiment(uri):
    for sweep_id in ("monday", "tuesday"):
        begun(uri, sweep_id=sweep_id).log(measurement(), None)

    parents, children = runs_of(uri)
    assert len(parents) == 2
    assert len(children) == 2


def test_settings_beyond_the_limit_of_one_call_are_kept(uri):
    begun(uri, settings=tuple((f"setting_{i}", i) for i in range(250)))

    (parent,), _ = runs_of(uri)
    assert len(parent.data.params) == 250


def test_a_deleted_experiment_is_refused_with_advice(uri):
    from mlflow import MlflowClient

    begun(uri)
    client = MlflowClient(uri)
    client.delete_experiment(client.get_experiment_by_name(STUDY).experiment_id)

    with pytest.raises(TrackingError, match="was deleted; restore it"):
        begun(uri)


def test_a_locked_store_is_an_error_within_seconds_and_then_works(uri, tmp_path):
    tracker = begun(uri)
    lock = sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")

    with pytest.raises(TrackingError, match="database is locked"):
        check_reachable(uri, patience_s=0.1)

    lock.execute("ROLLBACK")
    lock.close()
    tracker.log(measurement(), None)
    assert len(runs_of(uri)[1]) == 1


@pytest.mark.slow
def test_a_measurement_is_not_held_up_by_a_locked_store(uri, tmp_path):
    tracker = begun(uri)
    lock = sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    start_s = time.monotonic()

    with pytest.raises(TrackingError, match="database is locked"):
        tracker.log(measurement(), None)

    assert time.monotonic() - start_s < 15  # MLflow by itself waits 20 s
    lock.close()


def test_a_store_that_is_no_database_is_an_error(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, " * 100)

    with pytest.raises(TrackingError, match="file is not a database"):
        begun(embedded_uri(tmp_path))


def test_a_server_that_is_gone_is_an_error_at_once():
    start_s = time.monotonic()

    with pytest.raises(TrackingError, match="does not answer"):
        begun("http://127.0.0.1:9")

    assert time.monotonic() - start_s < 30  # MLflow's own client tries again for minutes


@pytest.mark.parametrize(("status", "reached"), [(200, True), (404, True), (503, False)])
def test_a_server_is_reachable_if_it_answers(status, reached):
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request).start()
        uri = f"http://127.0.0.1:{server.server_port}"
        if reached:
            check_reachable(uri)
        else:
            with pytest.raises(TrackingError, match="answers HTTP Error 503"):
                check_reachable(uri)


@pytest.mark.parametrize("uri", ["sqlite:///mlflow.db", "sqlite:///"])
def test_a_relative_database_is_refused(uri):
    with pytest.raises(TrackingError, match="absolute path"):
        MlflowTracker(uri)


def test_the_file_of_an_embedded_store_is_known(tmp_path):
    assert database_path(embedded_uri(tmp_path)) == tmp_path / "mlflow.db"
    assert database_path("http://localhost:5000") is None


def test_the_first_of_two_to_make_a_store_wins(tmp_path):
    drafts = [sqlite3.connect(":memory:", check_same_thread=False) for _ in range(2)]
    for name, draft in zip("ab", drafts, strict=True):
        draft.execute(f"CREATE TABLE {name} (x)")
    abandoned = tmp_path / "made" / ".store.7.tmp"
    abandoned.parent.mkdir()
    abandoned.write_text("half")
    os.utime(abandoned, (0, 0))

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda draft: publish(draft, tmp_path / "made" / "store"), drafts))
    publish(drafts[1], tmp_path / "made" / "store")

    with sqlite3.connect(tmp_path / "made" / "store") as made:
        tables = [name for (name,) in made.execute("SELECT name FROM sqlite_master")]
    for connection in (made, *drafts):
        connection.close()
    assert tables in (["a"], ["b"])
    assert len(list((tmp_path / "made").iterdir())) == 1


def test_sync_delivers_what_is_missing_and_says_so(uri, tmp_path, capsys):
    for study in ("a", "b"):
        store = ResultStore(tmp_path / study)
        store.write_study(header(sweep_id=study))
        for minute in range(2):
            store.append(record(minute=minute))
    sync = Sync(results_dir=tmp_path)

    assert sync.run() == 0
    assert sync.run() == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{tmp_path / 'a'}: delivered 2 to {uri}"
    assert said[2] == f"{tmp_path / 'a'}: delivered 0 to {uri}"
    assert len(runs_of(uri)[1]) == 4


def test_studies_that_cannot_be_read_or_are_under_way_keep_no_other_from_its_turn(
    uri, tmp_path, capsys
):
    """One that ran, or was of another version, ended sync, repair and report of all after it."""
    for study in ("a", "b", "c"):
        store = ResultStore(tmp_path / study)
        store.write_study(header(sweep_id=study))
        store.append(record(minute=0))
    (lines,) = (tmp_path / "a/measurements").iterdir()
    lines.write_text(lines.read_text().replace('"schema_version":1', '"schema_version":2'))

    with only_deliverer(tmp_path / "b"):
        synced = Sync(results_dir=tmp_path, tracking_uri=uri, json=True).run()
    found = json.loads(capsys.readouterr().out)
    codes = [command(results_dir=tmp_path).run() for command in (Repair, Report)]

    told = capsys.readouterr()
    assert (synced, codes) == (1, [1, 1])
    assert found[str(tmp_path / "c")]["num_left"] == 0
    assert "schema_version must be 1, got 2" in found[str(tmp_path / "a")]["error"]
    assert "Another process is delivering" in found[str(tmp_path / "b")]["error"]
    assert f"{tmp_path / 'c'}: nothing is broken" in told.out
    assert told.err.count(f"{tmp_path / 'a'} is left out: ") == 2
    assert f"{tmp_path / 'c'} is left out: {tmp_path / 'c'} must hold a sweep" in told.err


def test_sync_after_a_lost_ledger_makes_no_doubles(uri, tmp_path):
    store = ResultStore(tmp_path / "study")
    store.write_study(header())
    for minute in range(3):
        store.append(record(minute=minute))
    deliver(store, MlflowTracker(uri))
    shutil.rmtree(tmp_path / "study/delivered")

    report = deliver(ResultStore(tmp_path / "study"), MlflowTracker(uri))

    assert report.error is None
    assert len(runs_of(uri)[1]) == 3


def test_sync_to_a_store_that_was_emptied_delivers_everything(uri, tmp_path):
    """It believed its own notes, made a run without measurements, and said "delivered 0"."""
    store = ResultStore(tmp_path / "study")
    store.write_study(header())
    store.append(record(minute=0))
    deliver(store, MlflowTracker(uri))
    with closing(sqlite3.connect(database_path(uri))) as database, database:
        database.execute("DELETE FROM runs")

    report = deliver(store, MlflowTracker(uri))

    assert (report.num_delivered, report.error) == (1, None)
    assert len(runs_of(uri)[1]) == 1


def test_runs_that_somebody_deleted_are_left_alone_and_a_study_without_its_own_is_refused(
    uri, tmp_path
):
    """A study whose run was deleted was given a second run, with nothing in it."""
    store = ResultStore(tmp_path / "study")
    store.write_study(header())
    store.append(record(minute=0))
    deliver(store, MlflowTracker(uri))
    client = open_client(uri)
    (parent,), (child,) = runs_of(uri)

    client.delete_run(child.info.run_id)
    without_child = deliver(store, MlflowTracker(uri))
    client.delete_run(parent.info.run_id)
    without_parent = deliver(store, MlflowTracker(uri))

    assert (without_child.num_delivered, without_child.error) == (0, None)
    assert f"mlflow runs restore --run-id {parent.info.run_id}" in without_parent.error
    assert runs_of(uri) == ([], [])


def test_mlflow_prints_no_addresses_of_runs_where_a_command_prints_its_own(uri, monkeypatch):
    """`joulelab sync --json` to a server printed two lines for each run before its JSON."""
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)

    open_client(uri)

    assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get()


def test_sync_to_a_server_that_is_gone_leaves_everything(tmp_path, capsys):
    store = ResultStore(tmp_path)
    store.write_study(header())
    store.append(record())

    code = Sync(results_dir=tmp_path, tracking_uri="http://127.0.0.1:9").run()

    assert code == 1
    assert "1 left: The MLflow server at http://127.0.0.1:9 does not answer" in (
        capsys.readouterr().out
    )


def test_making_a_store_leaves_nothing_in_the_temporary_folder_even_if_it_is_killed(tmp_path):
    """A tracker that was killed while it made its store left half a database in /tmp."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    script = (
        "import os, signal, sys\n"
        "from joulelab.tracking import mlflow_store\n"
        "mlflow_store.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with mlflow_store.reached(sys.argv[1]): pass\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, embedded_uri(tmp_path)],
        env=os.environ | {"TMPDIR": str(temporary)},
        check=False,
    )

    assert done.returncode == -signal.SIGKILL
    assert [p for p in temporary.iterdir() if not p.name.startswith("torchinductor")] == []
    assert list(tmp_path.iterdir()) == [temporary]
