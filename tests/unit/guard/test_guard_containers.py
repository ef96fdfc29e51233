"""A guard in a container of its own, with one capability, and borrowers without any in others."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from grp import getgrnam
from pathlib import Path

import pytest
from fake_nvml.driver import build, h200
from waiting import until

from joulelab.guard.client import GuardClient

GROUP = "nogroup"
POLICY = f'[[allow]]\ngroups = ["{GROUP}"]\nsm_clock_mhz = [900, 1200]\n'
# Another namespace of process ids, another user, no capability. All is imported by then: a Python
# of root's own may be closed to others.
BORROW = f"""
import ctypes, os, sys, time
from pathlib import Path
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.guard.client import GuardClient
assert ctypes.CDLL(None).unshare(0x20000000) == 0  # CLONE_NEWPID, of the children
if os.fork():
    os.wait()
    sys.exit()
os.setgroups([])
os.setgid({getgrnam(GROUP).gr_gid})
os.setuid(54321)
address = DeviceAddress(backend="nvml", uuid="GPU-aa-0")
lease = GuardClient(Path(sys.argv[1])).lease(address, "a pod")
lease.apply(OperatingPoint(sm_clock_mhz=1095))
try:
    lease.apply(OperatingPoint(sm_clock_mhz=1305))
except ConfigError as error:
    print(os.getpid(), error, flush=True)
time.sleep(60)
"""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can make namespaces")


@pytest.fixture
def gpu(tmp_path):
    return h200(tmp_path / "store/GPU-aa-0")


@pytest.fixture
def guard(tmp_path, gpu, monkeypatch):
    """As the DaemonSet of cluster/kuberay.yaml runs it."""
    library = build(tmp_path / "nvml")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML_STORE", str(tmp_path / "store"))
    tmp_path.chmod(0o755)
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "policy.toml").chmod(0o644)
    confined = ["setpriv", "--regid", GROUP, "--clear-groups"]
    confined += ["--bounding-set", "-all,+sys_admin", "--inh-caps", "-all"]
    command = [sys.executable, "-m", "joulelab.cli.main", "guard", "--group", GROUP]
    command += ["--socket", tmp_path / "guard.sock", "--policy", tmp_path / "policy.toml"]
    with subprocess.Popen(
        [*confined, *command], env=os.environ | {"FAKE_NVML_PRIVILEGED": "1"}
    ) as process:
        until((tmp_path / "guard.sock").exists)
        yield GuardClient(tmp_path / "guard.sock", start=False)
        process.terminate()
    assert process.returncode == 0


@contextmanager
def pod(guard):
    command = [sys.executable, "-c", BORROW, guard.socket_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        [lease] = guard.status().leases
        try:
            yield lease, line
        finally:
            os.kill(lease.pid, signal.SIGKILL)


def test_a_pod_borrows_within_the_policy_and_its_death_restores_the_clock(guard, gpu):
    with pod(guard) as (lease, said):
        assert said.startswith("1 uid 54321 ")  # the first process of its namespace
        assert f"(pid {lease.pid}) asked for 1305MHz" in said  # the guard's number for it
        assert lease.uid == 54321
        assert gpu.read("locked_sm_mhz") == "1095 1095"

    until(lambda: gpu.read("locked_sm_mhz") is None)
    until(lambda: guard.status().leases == ())


def test_the_guard_has_one_capability(guard):
    status = Path(f"/proc/{guard.status().pid}/status").read_text()

    assert "CapEff:\t0000000000200000" in status  # CAP_SYS_ADMIN
