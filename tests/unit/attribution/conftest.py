"""Attributions of BLOOM on a simulated A100, what its kernels truly take, and a guard."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from planted_attributions import GPU, KNOBS, attribute

from joulelab.attribution.simulated_source import SimulatedSource
from joulelab.attribution.traced import traced_program
from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS


@pytest.fixture(scope="session")
def replayed(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("replayed"))


@pytest.fixture(scope="session")
def by_classes(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("classes"), "classes")


@pytest.fixture(scope="session")
def source():
    return SimulatedSource(GPUS[GPU], traced_program(WORKLOADS["bloom"].from_knobs(KNOBS)))


@pytest.fixture
def guard_socket():
    """Where a guard of the test's own listens; it is ended."""
    folder = Path(tempfile.mkdtemp(prefix="guard", dir="/tmp"))  # short enough for a socket
    yield folder / "guard" / "s"
    with suppress(GuardError):  # none was started
        GuardClient(folder / "guard" / "s").stop()
    shutil.rmtree(folder)
