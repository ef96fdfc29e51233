"""A part of what ``benchmarks/wrong_flags.py`` asks for, which can all be refused without Ray."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "wrong_flags.py"
FLAGS = ("study", "results-dir", "tracking-uri", "procedure.window-s")
REFUSED_EARLY = ("joulelab ", *(f" --{flag} " for flag in FLAGS))
EVERY = 61


def test_wrong_requests_are_told_in_a_line_or_two_and_leave_nothing():
    words = ["--only", *REFUSED_EARLY, "--every", str(EVERY)]

    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= 10
