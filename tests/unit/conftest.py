import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_nvml.driver import FakeDriver, NvmlProcess, build


def start(factory: pytest.TempPathFactory, *flags: str) -> Iterator[NvmlProcess]:
    process = NvmlProcess(build(factory.mktemp("nvml"), *flags))
    yield process
    process.stop()


@pytest.fixture(scope="session")
def nvml_process(tmp_path_factory):
    yield from start(tmp_path_factory)


@pytest.fixture(scope="session")
def old_nvml_process(tmp_path_factory):
    yield from start(tmp_path_factory, "-DBRANCH_535")


@pytest.fixture(scope="session")
def oldest_nvml_process(tmp_path_factory):
    yield from start(tmp_path_factory, "-DBRANCH_535", "-DBRANCH_470")


@pytest.fixture
def driver(tmp_path, nvml_process):
    """A driver of branch 580."""
    return FakeDriver(tmp_path / "driver", nvml_process)


@pytest.fixture
def old_driver(tmp_path, old_nvml_process):
    """A driver of branch 535."""
    return FakeDriver(tmp_path / "driver", old_nvml_process)


@pytest.fixture
def oldest_driver(tmp_path, oldest_nvml_process):
    """A driver of branch 470."""
    return FakeDriver(tmp_path / "oldest_driver", oldest_nvml_process)


@pytest.fixture
def synced(monkeypatch):
    """What the disk was told to keep, in order: path and size of files, path and names of folders.

    The disk is told all the same.
    """
    told = []
    fsync = os.fsync

    def noting(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        held = sorted(os.listdir(path)) if path.is_dir() else os.fstat(descriptor).st_size
        told.append((path, held))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return told
