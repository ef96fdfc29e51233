"""A Ray that an experiment starts for itself."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import psutil, ray
from joulelab_actors.session import connected
with connected(num_cpus=1):
    with connected():
        pass
    assert ray.is_initialized(), "the inner block ended what it had not started"
    children = psutil.Process().children(recursive=True)
    assert children
gone, alive = psutil.wait_procs(children, timeout=10)
assert not ray.is_initialized()
assert not alive, alive
"""


def test_a_ray_started_here_ends_with_its_block_and_leaves_no_token_behind(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment |= {
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("platform", "actors")),
    }

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".ray" / "auth_token").exists()
    assert done.stdout == ""
