"""``joulelab top``."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from joulelab.cli.main import main
from joulelab.core.device import DeviceAddress
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.live.activity import ActivityFile, EndedTrial, Saving


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


def test_the_trial_that_is_measured_is_shown_with_the_last_one(store, tmp_path, capsys):
    state, folder = store.create("h200_sxm", 0), Path(tempfile.mkdtemp(prefix="top", dir="/tmp"))
    address = DeviceAddress(backend="simulated", uuid=state.uuid, store=str(store.root))
    where = ["--device", "simulated", "--store", str(store.root)]
    where += ["--guard-socket", str(folder / "g/guard.sock")]
    told = {
        "study": "edp \x1b[31m",
        "trial": "810MHz-r0",
        "last": EndedTrial(trial="990MHz-r0", energy_j=5e3, energy_per_unit_j=0.25, unit="token"),
        "saving": Saving(point="990MHz", energy_ratio=0.7, time_ratio=1.1),
    }
    with closing(ActivityFile(address, tmp_path, folder / "g/guard.sock")) as file:
        file.tell(replace(file.activity, **told))
        main(["top", "--once", *where])
        table = capsys.readouterr().out
        main(["top", "--once", "--json", *where])
        seen = json.loads(capsys.readouterr().out)["activities"][state.uuid]
    shutil.rmtree(folder)

    words = " ".join(line.rpartition("│")[0].rpartition("│")[2] for line in table.splitlines())
    words = " ".join(words.split())
    assert "810MHz-r0 for" in words
    assert "990MHz-r0: 5 kJ, 250 mJ/token" in words
    assert "-30.0 % energy, +10.0 % time" in words
    assert "\x1b" not in table
    assert (seen["trial"], seen["last"]["energy_j"]) == ("810MHz-r0", 5e3)


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
        assert process.wait(PATIENCE_S) == 130
    os.close(ours)

    assert b"NVIDIA H200" in shown
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1  # alternate screen
    assert b"Traceback" not in shown


def read_until(descriptor, words):
    deadline_s, shown = time.monotonic() + PATIENCE_S, b""
    while words not in shown:
        assert select.select([descriptor], [], [], max(0.0, deadline_s - time.monotonic()))[0], (
            shown
        )
        shown += os.read(descriptor, 65536)
    return shown
