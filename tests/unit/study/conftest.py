"""A lab on simulated GPUs."""

import pytest
from actor_fixtures import QUICK
from undrawn import undrawn

import joulelab


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    with undrawn():
        yield


@pytest.fixture
def make_lab(tmp_path, guard_socket):
    return labs_in(tmp_path, guard_socket)


@pytest.fixture(scope="module")
def make_shared_lab(tmp_path_factory, guard_socket):
    """As ``make_lab``, for a study that several tests look at."""
    return labs_in(tmp_path_factory.mktemp("shared"), guard_socket)


def labs_in(folder, guard_socket):
    def make(**changes):
        usual = {
            "device": "simulated",
            "gpu": "h200_sxm",
            "store": folder / "driver",
            "results_dir": folder / "results",
            "guard_socket": guard_socket,
            "procedure": QUICK,
            "progress": False,
        }
        return joulelab.Lab(**usual | changes)

    return make
