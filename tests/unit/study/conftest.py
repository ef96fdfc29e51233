"""A lab on simulated GPUs."""

import pytest
from actor_fixtures import QUICK
from alone import own_guard_socket

import joulelab


@pytest.fixture(scope="module")
def guard_socket():
    with own_guard_socket() as path:
        yield path


@pytest.fixture
def make_lab(tmp_path, guard_socket):
    def make(**changes):
        usual = {
            "device": "simulated",
            "gpu": "h200_sxm",
            "store": tmp_path / "driver",
            "results_dir": tmp_path / "results",
            "guard_socket": guard_socket,
            "procedure": QUICK,
            "progress": False,
        }
        return joulelab.Lab(**usual | changes)

    return make
