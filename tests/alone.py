"""Code that runs in a process of its own, which has imported nothing yet."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from joulelab.errors import GuardError
from joulelab.guard import GuardClient

ROOT = Path(__file__).parents[1]


def run_alone(code, *parts):
    """Run ``code`` with these folders of the repository in its path; returns what it printed."""
    path = os.pathsep.join(str(ROOT / part) for part in ("platform", "tests", *parts))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def own_guard_socket():
    """Yield where a clock guard of the tests' own may listen; short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="guard", dir="/tmp"))
    yield folder / "guard.sock"
    with suppress(GuardError):  # none answers if it was never needed
        GuardClient(folder / "guard.sock", start=False).stop()
    shutil.rmtree(folder)
