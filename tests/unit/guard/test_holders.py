"""Who has the clocks of devices on loan."""

from pathlib import Path

import pytest
from alone import lent_elsewhere

from joulelab.devices.simulated import fleet
from joulelab.guard.client import GuardClient
from joulelab.guard.inquiry import holders
from joulelab.study.lab import Lab


@pytest.fixture
def gpus(tmp_path):
    return fleet("a40", 3, str(tmp_path / "driver"))


def test_without_a_guard_nobody_holds_anything(gpus):
    assert holders(gpus, Path("/tmp/joulelab-no-such-guard/guard.sock")) == {}


def test_a_device_that_another_process_borrowed_has_its_holder(gpus, guard_socket):
    with lent_elsewhere(gpus[1].uuid, gpus[1].store, guard_socket) as pid:
        assert holders(gpus, guard_socket) == {gpus[1].uuid: f"somebody (pid {pid})"}
        assert holders(gpus[:1], guard_socket) == {}


def test_a_device_of_the_same_name_in_another_store_is_another_one(gpus, guard_socket, tmp_path):
    others = fleet("a40", 3, str(tmp_path / "others"))

    with lent_elsewhere(gpus[1].uuid, gpus[1].store, guard_socket):
        assert holders(others, guard_socket) == {}


def test_what_this_process_borrowed_itself_is_not_anothers(gpus, guard_socket):
    with GuardClient(guard_socket).lease(gpus[0]):
        assert holders(gpus, guard_socket) == {}


def test_a_lab_chooses_gpus_that_nobody_has_before_those_on_loan(gpus, guard_socket, tmp_path):
    lab = Lab(
        device="simulated", store=tmp_path / "driver", num_gpus=2, guard_socket=guard_socket,
        results_dir=tmp_path / "results", progress=False,
    )  # fmt: skip

    with lent_elsewhere(gpus[0].uuid, gpus[0].store, guard_socket), lab.open() as chosen:
        assert [gpu.uuid for gpu in chosen] == [gpus[1].uuid, gpus[2].uuid]
    with lab.open() as chosen:
        assert [gpu.uuid for gpu in chosen] == [gpus[0].uuid, gpus[1].uuid]
