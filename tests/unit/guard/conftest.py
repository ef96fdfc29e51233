import shutil
import tempfile
from pathlib import Path

import pytest
from guard_fakes import FakeDriver, serving

from joulelab.core.device import DeviceAddress
from joulelab.devices.simulated import DriverStore
from joulelab.guard.settings import GuardSettings


@pytest.fixture
def tmp_path():
    """A folder with a short name: a Unix socket's path holds a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="guard", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def settings(tmp_path):
    return GuardSettings(socket_path=tmp_path / "guard.sock", max_ttl_s=60.0)


@pytest.fixture
def client(settings, driver):
    with serving(settings, driver) as client:
        yield client


@pytest.fixture
def store(tmp_path):
    return DriverStore(tmp_path / "driver")


@pytest.fixture
def gpu(store):
    return store.create("h200_sxm", 0)


@pytest.fixture
def address(store, gpu):
    return DeviceAddress(backend="simulated", uuid=gpu.uuid, store=str(store.root))
