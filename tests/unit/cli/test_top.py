"""``joulelab top``."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from joulelab.cli.main import main
from joulelab.devices.simulated import DriverStore, Fault


@pytest.fixture
def store(tmp_path):
    return DriverStore(tmp_path / "driver")


@pytest.fixture
def where(store, tmp_path):
    socket = ["--guard-socket", str(tmp_path / "guard.sock")]
    return ["--device", "simulated", "--store", str(store.root), *socket]


def test_a_table_holds_every_gpu(store, where, capsys):
    store.create("h200_sxm", 0)
    store.create("v100_sxm2", 1)

    code = main(["top", "--once", *where])

    out = capsys.readouterr().out
    assert code == 0
    assert "0 NVIDIA H200" in out
    assert "SIM-v100_sxm2-1" in out
    assert "of 700" in out
    assert "not throttled" in out


def test_one_gpu_of_several_keeps_its_place(store, where, capsys):
    uuids = [store.create("h200_sxm", index).uuid for index in range(3)]

    main(["top", "--once", "--json", "--uuid", uuids[2], *where])

    (gpu,) = json.loads(capsys.readouterr().out)["gpus"]
    assert (gpu["index"], gpu["identity"]["uuid"]) == (2, uuids[2])
    assert 50 < gpu["power_w"] < 150
    assert gpu["state"]["event_reasons"] == ["IDLE"]


def test_a_gpu_that_is_lost_is_shown_as_such_and_fails(store, where, capsys):
    state = store.create("h200_sxm", 0)
    state.inject(Fault(kind="lost"))

    code = main(["top", "--once", *where])

    assert code == 1
    assert "fallen off the bus" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--json"], "--once"),
        (["--interval-s", "0"], "--interval-s"),
        (["--gpu", "h200_sxm", "--device", "nvml"], "--gpu"),
    ],
)
def test_a_wrong_request_is_refused(words, reason, where, capsys):
    assert main(["top", *where, *words]) == 2
    assert reason in capsys.readouterr().err


def test_ctrl_c_ends_the_view_and_leaves_the_terminal_as_it_was(store, where):
    store.create("h200_sxm", 0)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "joulelab.cli.main", "top", *where, "--interval-s", "0.1"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = read_until(ours, b"% of a core")
        process.send_signal(signal.SIGINT)
        shown += read_until(ours, b"interrupted")
        assert process.wait(10) == 130
    os.close(ours)

    assert b"NVIDIA H200" in shown
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1  # alternate screen
    assert b"Traceback" not in shown


def read_until(descriptor, words):
    deadline_s, shown = time.monotonic() + 30, b""
    while words not in shown:
        assert time.monotonic() < deadline_s, shown
        shown += os.read(descriptor, 65536)
    return shown
