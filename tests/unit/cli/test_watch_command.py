"""``joulelab watch``."""

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from synthetic_results import header, measurement

from joulelab.cli.main import main
from joulelab.cli.watch import LivePage, newest_study
from joulelab.core.record import Record
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyState, write_state


@pytest.fixture
def study(tmp_path):
    """A study that has begun, and nothing more."""
    return begun(tmp_path / "results" / "first")


def begun(folder, name="first"):
    with closing(ResultStore(folder)) as store:
        store.write_study(replace(header(), name=name))
    state = StudyState(study=name, num_trials=90, num_done=37, since_unix_s=0.0, updated_unix_s=0.0)
    write_state(folder, state)
    return folder


@contextmanager
def watching(*words):
    command = [sys.executable, "-m", "joulelab.cli.main", "watch", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            first = process.stderr.readline()
            assert " at http://127.0.0.1:" in first, first
            yield process, first.split(" at ")[1].split(";")[0]
        finally:
            process.kill()


def test_the_page_is_served_until_ctrl_c_and_asks_again(study):
    with watching(study, "--interval-s", "2.5") as (process, url):
        with urlopen(url) as answer:
            page, headers = answer.read().decode(), answer.headers
        process.send_signal(signal.SIGINT)
        code = process.wait(60)  # it gives way to whatever else runs

    assert "37 of 90 done" in page
    assert "Nothing was measured yet" in page
    assert headers["Refresh"] == "2.5"
    assert code == 130


def test_only_the_page_is_served_and_only_under_this_machines_own_name(study):
    with watching(study) as (_, url):
        refused = []
        for path, host in (("study.json", "127.0.0.1"), ("", "lab.example"), ("", "[::1")):
            with pytest.raises(HTTPError) as error:
                urlopen(Request(url + path, headers={"Host": host}))
            refused.append(error.value.code)
            error.value.close()
        with urlopen(Request(url, headers={"Host": "localhost:9999"})) as answer:
            through_a_tunnel = answer.status

    assert refused == [404, 404, 404]
    assert through_a_tunnel == 200


def test_a_page_is_made_anew_only_when_something_is_new(study):
    page = LivePage(study)

    first, again = page.text(), page.text()
    made = measurement()
    with closing(ResultStore(study)) as store:
        store.append(Record(measurement=made, trace=None))
    after = page.text()

    assert first is again
    assert after != first


def test_of_several_studies_the_newest_is_shown(study):
    page = LivePage(study.parent)
    before = page.text()
    later = begun(study.parent / "second", "second")
    os.utime(later / "progress.json", (2e9, 2e9))

    assert "first" in before
    assert "second" in page.text()
    assert newest_study(study) == study


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["{folder}/gone"], "does not exist"),
        (["{folder}"], "has none"),
        (["{study}", "--interval-s", "0"], "--interval-s"),
        (["{study}", "--port", "70000"], "--port"),
    ],
)
def test_a_wrong_request_is_refused(words, reason, study, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    named = [word.format(folder=tmp_path / "empty", study=study) for word in words]

    assert main(["watch", *named]) == 2
    assert reason in capsys.readouterr().err
