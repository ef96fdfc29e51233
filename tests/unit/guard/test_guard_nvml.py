"""The guard over the real NVML device, which tells of no lock and whose reset spares limits."""

import os
import signal

import pytest
from fake_nvml.driver import build, h200
from waiting import until

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, DevicePermissionError
from joulelab.guard.client import GuardClient
from joulelab.guard.start import ensure_guard

ADDRESS = DeviceAddress(backend="nvml", uuid="GPU-aa-0")
POINT = OperatingPoint(sm_clock_mhz=1095, power_limit_w=350.0)
SETTINGS = ("locked_sm_mhz", "locked_mem_mhz", "power_limit_mw")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpu(tmp_path):
    return h200(tmp_path / "store/GPU-aa-0")


@pytest.fixture
def client(tmp_path, library, gpu, monkeypatch):
    """A guard that is root to the driver."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FAKE_NVML_PRIVILEGED", "1")
    client = GuardClient(tmp_path / "guard.sock")
    yield client
    ensure_guard(client.socket_path)  # it may just be reviving
    client.stop()


def settings(gpu):
    return {name: text for name in SETTINGS if (text := gpu.read(name)) is not None}


def test_the_receipt_tells_the_clock_and_the_limit_but_no_lock(client, gpu):
    with client.lease(ADDRESS) as lease:
        receipt = lease.apply(POINT)
        gpu_then = settings(gpu)

    assert gpu_then == {"locked_sm_mhz": "1095 1095", "power_limit_mw": "350000"}
    assert receipt.held is None
    assert receipt.power_limit_w == 350.0
    assert settings(gpu) == {}


def test_a_revived_guard_restores_lock_and_limit(client, gpu):
    gpu.write(power_limit_mw="500000")
    lease = client.lease(ADDRESS)
    lease.apply(POINT)
    lease.apply(OperatingPoint(sm_clock_mhz=1200, power_limit_w=400.0))

    os.kill(client.status().pid, signal.SIGKILL)

    until(lambda: "locked_sm_mhz" not in settings(gpu))
    until(lambda: settings(gpu) == {"power_limit_mw": "500000"})
    lease.close()


def test_a_clock_off_the_grid_comes_back_with_its_neighbours(client, gpu):
    with client.lease(ADDRESS) as lease, pytest.raises(ConfigError, match=r"1095.*1110"):
        lease.apply(OperatingPoint(sm_clock_mhz=1100))

    assert settings(gpu) == {}


def test_a_guard_without_privilege_says_so_and_owes_nothing(client, gpu, monkeypatch):
    monkeypatch.setenv("FAKE_NVML_PRIVILEGED", "0")

    with client.lease(ADDRESS) as lease, pytest.raises(DevicePermissionError):
        lease.apply(POINT)

    assert settings(gpu) == {}
    assert client.status().pending == ()
