"""Random SIGKILLs, by the script that also prints them as a table."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks/guard_kills.py"


def processes_that_name(folder):
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if any(str(folder) in argument for argument in process.cmdline()):
                found.append(process.pid)
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_random_kills_leave_no_clock_locked_and_no_process_behind(tmp_path):
    command = [sys.executable, SCRIPT, "--kills", "16", "--seed", "9", "--applies", "20", "--json"]

    done = subprocess.run(
        command,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["locks_left"] == []
    assert sum(row["count"] for row in told["kills"].values()) == 16
    assert processes_that_name(tmp_path) == []
