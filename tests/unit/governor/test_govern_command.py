"""`joulelab govern` around loads in virtual time, and around programs in real time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from fake_gpu import FOREIGN_PID
from guard_fakes import end_guard
from waiting import until

import joulelab
from joulelab.cli.main import main
from joulelab.core.device import DeviceAddress
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.guard import GuardClient

SOURCE = str(Path(joulelab.__file__).parents[1])


class Node:
    """A simulated GPU, a clock guard of its own, and the command on both."""

    def __init__(self, folder, *, restricted=False):
        self.store = folder / "driver"
        self.socket = folder / "guard.sock"
        self.result_path = folder / "result.json"
        self.gpu = DriverStore(self.store).create("h200_sxm", 0, restricted=restricted)

    def words(self, *options, program=()):
        named = ("--store", self.store, "--guard-socket", self.socket, "--json", self.result_path)
        words = ["govern", "--device", "simulated", *map(str, named), *options]
        return [*words, "--", *program] if program else words

    def start(self, *options, program):
        command = [sys.executable, "-m", "joulelab.cli.main"]
        return subprocess.Popen(
            [*command, *self.words(*options, program=program)],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stderr=subprocess.PIPE,
            text=True,
        )

    def holding(self, then):
        """A shell program that holds the GPU, so that its clock is high, and does ``then``."""
        line = Fault(kind="foreign_process", pid=FOREIGN_PID).line.replace(str(FOREIGN_PID), "$$")
        path = self.gpu.folder / "faults"
        return ("sh", "-c", f'echo "{line}" > {path}.new && mv {path}.new {path}; {then}')

    @property
    def result(self):
        return json.loads(self.result_path.read_text())

    @property
    def is_locked(self):
        return self.gpu.read("locked_sm_mhz") is not None

    def until(self, locked):
        until(lambda: self.is_locked is locked)


@pytest.fixture
def folder():
    """A folder with a short name: a Unix socket's path holds a hundred bytes."""
    made = Path(tempfile.mkdtemp(prefix="govern", dir="/tmp"))
    yield made
    end_guard(made / "guard.sock")
    shutil.rmtree(made)


@pytest.fixture
def node(folder):
    return Node(folder)


def test_a_load_is_governed_and_what_that_saved_is_told(node, capsys):
    """What a sensor's constant does to a saving, up to 2 points, stood in no report."""
    code = main(node.words("--load", "decode", "--duration-s", "300"))

    said = capsys.readouterr().err
    assert code == 0
    assert "joulelab govern: " in said.partition("decode 1")[0].splitlines()[-1]
    assert said.count("simulated NVIDIA H200 under ") == 1
    assert "EDP -" in said
    assert "a constant that it adds is not in the intervals" in said
    saved = node.result["comparison"]["energy"]
    assert saved["lower"] <= saved["value"] <= saved["upper"] < -0.2
    assert node.result["observing_only"] == ""
    assert not node.is_locked


def test_a_program_keeps_its_exit_code_and_leaves_no_lock(node):
    with node.start(program=("sh", "-c", "sleep 0.2; exit 7")) as running:
        _, said = running.communicate(timeout=60)

    assert running.returncode == 7
    assert "What was saved is not known" in said
    assert not node.is_locked


@pytest.mark.slow
def test_a_governor_that_is_killed_leaves_nothing_locked(node):
    options = ("--strategy", "race-to-idle", "--off-share", "0")
    with node.start(*options, program=node.holding("exec sleep 60")) as running:
        node.until(locked=True)
        (program,) = [p for p in psutil.Process(running.pid).children() if p.name() == "sleep"]

        running.send_signal(signal.SIGKILL)
        running.wait()

        node.until(locked=False)
        program.kill()


@pytest.mark.slow
def test_a_program_that_ends_or_forks_ends_the_governing_and_gives_back_the_clock(node):
    options = ("--strategy", "race-to-idle", "--off-share", "0")
    left, over = node.store.parent / "left", node.store.parent / "over"
    forks = f"sleep 60 2>/dev/null & echo $! >{left}; until [ -e {over} ]; do sleep 0.1; done"
    with node.start(*options, program=node.holding(forks)) as running:
        node.until(locked=True)
        over.touch()
        _, said = running.communicate(timeout=60)
    os.kill(int(left.read_text()), signal.SIGKILL)

    assert running.returncode == 0
    assert "left processes behind" in said
    assert not node.is_locked


def test_clocks_that_another_has_on_loan_are_refused_by_name(node, capsys):
    address = DeviceAddress(backend="simulated", uuid=node.gpu.uuid, store=str(node.store))

    with GuardClient(node.socket).lease(address, note="a study"):
        code = main(node.words("--load", "decode", "--duration-s", "30"))

    assert code == 2
    assert f"leased to pid {os.getpid()}" in capsys.readouterr().err


def test_without_permission_it_observes_and_says_so(folder, capsys):
    node = Node(folder, restricted=True)

    code = main(node.words("--load", "decode", "--duration-s", "60"))

    said = " ".join(capsys.readouterr().err.split())
    assert code == 1
    assert "Nothing was set: " in said
    assert "may not set clocks" in said
    assert node.result["phases"][0]["name"] == "decode 1"
    assert node.result["comparison"] is None


def test_observing_only_calls_no_setter(node, capsys):
    node.gpu.inject(Fault(kind="refused"))

    code = main(node.words("--load", "serving", "--duration-s", "60", "--observe-only"))

    assert code == 0
    assert "asked to observe only" in capsys.readouterr().err
    assert {phase["name"].split()[0] for phase in node.result["phases"]} == {
        "idle",
        "prefill",
        "decode",
    }


@pytest.mark.parametrize(
    ("options", "program", "code", "said"),
    [
        ((), (), 2, "needs a program after two dashes"),
        (("--load", "serv"), (), 2, "Did you mean 'serving'"),
        (("--load", "serving", "--duration-s", "-1"), (), 2, "--duration-s must be positive"),
        (("--load", "serving", "--duration-s", "inf"), (), 2, "at most 1e+09, got inf"),
        (("--strategy", "modle", "--duration-s", "1"), (), 2, "Did you mean 'model'"),
        (("--strategy", "fixed", "--duration-s", "1"), (), 2, "--fixed 1410"),
        (("--strategy", "fixed", "--fixed", "700", "--duration-s", "1"), (), 2, "690 and 705"),
        (("--fixed", "1410", "--duration-s", "1"), (), 2, "give --strategy fixed"),
        (("--progress-url", "localhost", "--duration-s", "1"), (), 2, "begin with http"),
        (("--load", "chat", "--progress-url", "http://x"), (), 2, "played without a server"),
        (("--load", "chat", "--latency-limit-s", "1"), (), 2, "played without a server"),
        (("--max-slowdown", "5", "--duration-s", "1"), (), 2, "0.05 is 5 %"),
        (("--objective", "time", "--duration-s", "1"), (), 2, "own clocks are the fastest"),
        ((), ("no-such-program",), 127, "No such file"),
        ((), ("/",), 126, "Permission denied"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused(
    node, capsys, *, options, program, code, said
):
    """``--fixed`` without its strategy, and a server's options beside a load, were ignored."""
    found = main(node.words(*options, program=program))

    assert found == code
    assert said in " ".join(capsys.readouterr().err.split())
    assert not node.result_path.exists()
