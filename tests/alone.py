"""Code that runs in a process of its own, which has imported nothing yet."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from guard_fakes import end_guard

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
    end_guard(folder / "guard.sock")
    shutil.rmtree(folder)


_BORROWER = """
import sys
from pathlib import Path
from joulelab.core.device import DeviceAddress
from joulelab.guard import GuardClient
uuid, store, guard_socket = sys.argv[1:]
address = DeviceAddress(backend="simulated", uuid=uuid, store=store)
with GuardClient(Path(guard_socket)).lease(address, note="somebody"):
    print("lent", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def lent_elsewhere(uuid, store, guard_socket):
    """Have another process of this machine borrow a simulated GPU; yield its process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BORROWER, uuid, str(store), str(guard_socket)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "platform")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().strip() == "lent"
        yield process.pid
    finally:
        process.communicate("\n", timeout=60)
