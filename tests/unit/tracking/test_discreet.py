import json
import re
from pathlib import Path

import pytest

from joulelab.errors import ConfigError
from joulelab.tracking.discreet import connectable, discreet
from joulelab.tracking.reach import usable_uri

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
    text = path.read_text(encoding="utf-8")

    assert not re.findall(r"/root\b|/home/\w+|/Users/\w+|file:///", text)
    assert not re.findall(r"\w+://[^\s\"/*<>]*:[^\s\"/*<>]*@", text)


def test_headers_of_committed_studies_read_back():
    for path in RESULTS.rglob("study.json"):
        assert json.loads(path.read_text())["command"]
