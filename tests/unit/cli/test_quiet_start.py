"""Ctrl-C while a command or a script still imports."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.cli.errors import exit_code
from joulelab.errors import ConfigError, TrackingError, one_line

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "experiments").glob("*.py"))
# Short sleeps: a signal just before one long sleep would be handled only after it.
SLOW = "import time\nprint('importing', flush=True)\nfor _ in range(600): time.sleep(0.1)\n"
SWALLOWS = (
    "import time\nprint('importing', flush=True)\n"
    "try:\n    for _ in range(600): time.sleep(0.1)\n"
    "except KeyboardInterrupt:\n    raise ImportError('no module') from None\n"
)


def interrupted(words, tmp_path, module):
    """Interrupt a process in the middle of its first import from outside of joulelab."""
    (tmp_path / "tyro.py").write_text(module)
    paths = [str(tmp_path), *(str(ROOT / part) for part in ("platform", "actors"))]
    with subprocess.Popen(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_ctrl_c_during_the_imports_of_a_script_is_one_line(script, tmp_path):
    assert interrupted([str(script)], tmp_path, SLOW) == (130, f"{script.stem}: interrupted.\n")


@pytest.mark.parametrize("module", [SLOW, SWALLOWS])
def test_ctrl_c_during_the_imports_of_a_command_is_one_line(tmp_path, module):
    words = ["-m", "joulelab.cli.main", "measure", "idle"]

    assert interrupted(words, tmp_path, module) == (130, "joulelab: interrupted.\n")


def test_a_script_that_runs_is_interrupted_as_ever(capsys, heeded):
    def run():
        signal.raise_signal(signal.SIGINT)
        return 0

    assert exit_code(run, name="script") == 130
    assert capsys.readouterr().err == "script: interrupted.\n"


@pytest.mark.parametrize(
    "error",
    [ConfigError("two\nlines"), TrackingError("a\x1b[31mb\x07"), PermissionError(13, "no", "/x")],
)
def test_an_error_is_one_line_that_leaves_the_terminal_alone(error, capsys):
    def run():
        raise error

    code = exit_code(run, name="script")

    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert said.strip().isprintable()


def test_what_can_be_printed_is_told_as_it_is():
    assert one_line("1 µs ± 2 %, 'a'  b") == "1 µs ± 2 %, 'a' b"
    assert one_line("\x1b]2;x\x07") == "\\x1b]2;x\\x07"
