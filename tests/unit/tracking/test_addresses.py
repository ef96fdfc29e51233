import base64
import gzip
import http.server
import json
import re
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
from synthetic_results import header, record

from joulelab.cli.main import main
from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.addresses import connectable, discreet, embedded_uri, typed
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_database import artifacts_of, check_reachable, mlflow_uri
from joulelab.tracking.mlflow_store import usable_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore

RESULTS = Path(__file__).parents[3] / "experiments" / "results"


@pytest.mark.parametrize(
    "told",
    [
        "http://ann:hunter2@host:5000",
        "--tracking-uri=https://ann:hunter2@host/mlflow?x=1",
        "postgresql+psycopg2://ann:hunter2@host/db",
        "http://ann@example.org:hunter2@host",
        "API request to http://ann:hunter2@host/api failed; http://ann:hunter2@host is down.",
        "postgresql://host/db?user=x&password=hunter2&sslmode=on",
        "http://hunter2@host",
    ],
)
def test_no_user_and_no_password_of_an_address_is_shown(told):
    shown = discreet(told)

    assert "hunter2" not in shown
    assert "ann" not in shown
    assert "host" in shown


@pytest.mark.parametrize(
    "told",
    ["http://host:5000", "sqlite:////a@b/mlflow.db", "mail ann@host", "/results/x@y", "none"],
)
def test_what_holds_no_login_is_shown_as_it_is(told):
    assert discreet(told) == told


def test_the_home_folder_is_no_part_of_what_is_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert discreet(f"sqlite:///{tmp_path}/res/mlflow.db") == "sqlite:///~/res/mlflow.db"
    assert discreet(f"{tmp_path}") == "~"
    assert discreet(f"{tmp_path}-of-another") == f"{tmp_path}-of-another"
    assert connectable("sqlite:///~/res/mlflow.db") == f"sqlite:///{tmp_path}/res/mlflow.db"


def test_an_address_that_lost_its_password_is_never_connected_to():
    with pytest.raises(ConfigError, match=r"give the whole address again with --tracking-uri"):
        usable_uri(discreet("http://ann:hunter2@host"))


@pytest.mark.parametrize(
    "uri", ["http://", "http://[::1", "http://host:99999", "nonsense://host", "://", "http://a b"]
)
def test_what_can_be_no_tracking_store_is_refused_before_anything_is_measured(uri):
    with pytest.raises(ConfigError, match="must be the address of a server"):
        usable_uri(uri)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
def test_a_store_may_lie_in_a_folder_with_spaces_and_any_letters(tmp_path):
    """Any study with such a ``--results-dir`` was refused, by the address of its own store."""
    store = ResultStore(tmp_path / "my results, \u7d50\u679c" / "study")
    store.append(record(measurement_id="m1"))
    store.write_study(header())

    uri = usable_uri(embedded_uri(store.folder.parent))

    assert deliver(store, MlflowTracker(uri)).num_delivered == 1


def test_a_folder_is_shown_as_a_shell_takes_it(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")

    words = typed("/home/ann/my results; $x 'y'")

    shown = subprocess.run(["sh", "-c", f"printf %s {words}"], capture_output=True, check=True)
    assert words.startswith("~/")
    assert shown.stdout.decode() == "/home/ann/my results; $x 'y'"


def test_a_port_is_a_number_from_one_up():
    assert usable_uri("http://host:1") == "http://host:1"

    with pytest.raises(ConfigError, match="must be the address"):
        usable_uri("http://host:0")


def test_a_database_without_a_place_for_files_is_refused_without_its_password():
    """MLflow would put them below the folder that a study was started in."""
    with pytest.raises(ConfigError, match="no place for files") as refused:
        usable_uri("postgresql://ann:hunter2@host/mlflow")

    assert "hunter2" not in str(refused.value)


def test_mlflow_gets_the_address_of_a_database_with_a_driver_and_an_end_of_its_patience():
    address = "postgresql://ann:hunter2@host:5433/mlflow?artifacts=/shared/files&sslmode=require"

    parts = urlsplit(mlflow_uri(address))

    assert artifacts_of(address) == "/shared/files"
    assert (parts.scheme, parts.netloc) == ("postgresql+psycopg", "ann:hunter2@host:5433")
    query = dict(parse_qsl(parts.query))
    assert query.pop("options") == "-c statement_timeout=30s"
    assert query == {"connect_timeout": "5", "sslmode": "require"}
    assert mlflow_uri("http://host:5000") == "http://host:5000"


@pytest.mark.parametrize(("port", "asked"), [("", 5432), (":6000", 6000)])
def test_a_database_is_asked_at_its_own_port_or_at_that_of_postgresql(monkeypatch, port, asked):
    places = []

    def connect(place, patience_s):
        places.append(place)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(socket, "create_connection", connect)
    check_reachable(f"postgresql://ann@db.site{port}/mlflow?artifacts=/files")

    assert places == [("db.site", asked)]


def test_a_database_that_is_down_is_named_within_the_patience_that_is_left():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match="does not answer"):
            check_reachable(f"postgresql://ann@127.0.0.1:{port}/mlflow?artifacts=/files")


def test_an_embedded_store_in_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="must be a folder in which files can be made"):
        usable_uri(f"sqlite:///{tmp_path}/file/mlflow.db")
    with pytest.raises(ConfigError, match="but it is a folder"):
        usable_uri(f"sqlite:///{tmp_path}")


def test_looking_whether_a_folder_can_be_used_leaves_nothing(tmp_path):
    usable_uri(f"sqlite:///{tmp_path}/not/yet/mlflow.db")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(RESULTS.rglob("*")) if p.suffix not in (".parquet", ".png")],
    ids=lambda path: path.relative_to(RESULTS).as_posix(),
)
def test_no_committed_result_tells_a_home_folder_or_a_login(path):
    """The matrix of workloads had /root/res in its command and in its settings."""
    if not path.is_file():
        return
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")

    assert not re.findall(r"/root\b|/home/\w+|/Users/\w+|file:///", text)
    assert not re.findall(r"\w+://[^\s\"/*<>]*:[^\s\"/*<>]*@", text)


def test_headers_of_committed_studies_read_back():
    for path in RESULTS.rglob("study.json"):
        assert json.loads(path.read_text())["command"]


def test_the_server_is_asked_with_the_login_that_nobody_is_shown():
    asked = []

    class Guarded(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(503)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.handle_request).start()
        uri = f"http://ann:hunter%202@127.0.0.1:{server.server_port}/mlflow"
        with pytest.raises(TrackingError, match=r"http://\*\*\*@127.0.0.1:\d+/mlflow answers"):
            check_reachable(uri)

    login = base64.b64encode(b"ann:hunter 2").decode()
    assert asked == [("/mlflow/health", f"Basic {login}")]


def test_a_store_that_fails_is_named_without_its_password(tmp_path):
    tracker = MlflowTracker("http://ann:hunter2@127.0.0.1:9")
    store = ResultStore(tmp_path)
    store.write_study(header(tracking_uri="http://ann:hunter2@127.0.0.1:9"))
    store.append(record(measurement_id="m1"))

    report = deliver(store, tracker)

    assert report.num_left == 1
    assert "hunter2" not in repr(report)
    assert "hunter2" not in (tmp_path / "study.json").read_text()
    assert [m.measurement_id for m in store.undelivered(target=tracker.target)]


def test_what_was_delivered_with_a_password_is_known_by_the_address_without(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record(measurement_id="m1"))

    store.mark_delivered(["m1"], target="http://ann:hunter2@host")

    assert "hunter2" not in (tmp_path / "delivered" / "driver.jsonl").read_text()
    assert store.undelivered(target="http://bob:other@host") == []


def test_a_stored_address_without_its_password_is_not_synced_to(tmp_path, capsys):
    store = ResultStore(tmp_path)
    store.append(record(measurement_id="m1"))
    store.write_study(header(tracking_uri="http://ann:hunter2@127.0.0.1:9"))

    code = main(["sync", str(tmp_path)])

    said = capsys.readouterr().err
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "give the whole address again with --tracking-uri" in said
