"""A guard whose code is gone: a Ray job's snapshot ends before its guard does."""

import shutil
import subprocess
import sys
from pathlib import Path

import joulelab

SCRIPT = """
import shutil, sys
sys.path.insert(0, sys.argv[1])
from joulelab.guard import daemon
from joulelab.devices.choice import open_device
from joulelab.devices.simulated import fleet
assert daemon.__file__.startswith(sys.argv[1]), daemon.__file__
daemon._read_all()
shutil.rmtree(sys.argv[1])
(address,) = fleet("h200_sxm", 1, sys.argv[2])
print(open_device(address).identity().name)
"""


def test_a_guard_opens_simulated_gpus_when_its_code_is_gone(tmp_path):
    snapshot = tmp_path / "snapshot"
    shutil.copytree(Path(joulelab.__file__).parent, snapshot / "joulelab")

    command = [sys.executable, "-P", "-c", SCRIPT, snapshot, tmp_path / "gpus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={})

    assert done.stdout.strip() == "NVIDIA H200", done.stderr
