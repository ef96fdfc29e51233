"""Which simulated GPU is meant where none is named, whatever was simulated before."""

import pytest

from joulelab.cli.main import main
from joulelab.cli.options import choose_address, choose_group
from joulelab.devices.choice import find_default, find_visible
from joulelab.devices.simulated import DriverStore, fleet
from joulelab.devices.simulated import store as driver_store
from joulelab.errors import DeviceNotFoundError
from joulelab.monitor.sensors import find_gpus
from joulelab.running.measure import beside
from joulelab.study.lab import Lab

DEFAULT = "SIM-h200_sxm-0"


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    """The user's own folder of state, in which other GPUs were simulated before."""
    root = tmp_path / "driver"
    monkeypatch.setattr(driver_store, "default_root", lambda: root)
    fleet(["a100_sxm", "h200_sxm"], 3)
    return root


@pytest.fixture
def orphan(own_root):
    """The folder of a GPU whose file is no longer in the catalogue."""
    state = DriverStore().create("a100_sxm", 7)
    state.write("catalogue", "a41")
    return own_root / "SIM-a100_sxm-7"


def uuids(found):
    return [address.uuid for address in found]


def lab_uuids(**options):
    with Lab(device="simulated", observe_only=True, progress=False, **options).open() as chosen:
        return [gpu.uuid for gpu in chosen]


def test_what_was_simulated_before_is_not_watched():
    assert uuids(find_gpus("simulated", None, None)) == [DEFAULT]
    assert uuids(find_gpus("simulated", None, [0])) == [DEFAULT]
    assert uuids(beside([], "simulated", None)) == [DEFAULT]
    assert beside(fleet("a100_sxm", 1), "simulated", None) == []


def test_what_was_simulated_before_can_be_named_and_is_listed():
    named = "SIM-a100_sxm-2"

    assert uuids(find_gpus("simulated", None, [named])) == [named]
    assert choose_address("simulated", uuid=named).uuid == named
    assert len(find_visible("simulated")) == 6


@pytest.mark.parametrize("is_named", [False, True])
def test_a_command_for_one_gpu_takes_the_default_one_also_of_a_store(is_named, tmp_path):
    store = str(tmp_path / "named") if is_named else None
    fleet("a100_sxm", 1, store)

    assert choose_address("simulated", store=store).uuid == DEFAULT
    group = choose_group("simulated", store=store, num_gpus=2)
    assert uuids(group) == [DEFAULT, "SIM-h200_sxm-1"]


def test_of_a_store_all_gpus_are_watched(tmp_path):
    there = fleet("a100_sxm", 2, str(tmp_path / "named"))

    assert find_default("simulated", str(tmp_path / "named")) == there
    assert beside(there[:1], "simulated", str(tmp_path / "named")) == [there[1]]


def test_a_lab_takes_default_gpus_those_named_or_those_of_its_store(tmp_path):
    fleet("a40", 1, str(tmp_path / "named"))
    results = tmp_path / "results"

    assert lab_uuids(results_dir=results) == [DEFAULT]
    assert lab_uuids(results_dir=results, num_gpus=2) == [DEFAULT, "SIM-h200_sxm-1"]
    assert lab_uuids(results_dir=results, uuids=("SIM-a100_sxm-1",)) == ["SIM-a100_sxm-1"]
    assert lab_uuids(results_dir=results, gpu_product="a100") == ["SIM-a100_sxm-0"]
    assert lab_uuids(results_dir=results, store=tmp_path / "named") == ["SIM-a40-0"]


def test_a_gpu_that_the_catalogue_has_no_longer_is_left_out_of_a_list(orphan, capsys):
    code = main(["devices", "--device", "simulated", "--quick", "--json"])

    out, err = capsys.readouterr()
    assert code == 0
    assert DEFAULT in out
    assert orphan.name not in out
    assert f"{orphan} keeps a simulated GPU 'a41'" in err
    assert "delete that folder" in err


def test_a_gpu_that_the_catalogue_has_no_longer_is_refused_with_its_folder(orphan):
    with pytest.raises(DeviceNotFoundError, match=f"{orphan} .*'a41'.*delete that folder"):
        DriverStore().state(orphan.name).spec  # noqa: B018


def test_a_store_that_cannot_be_made_is_refused_with_what_it_must_be(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    store = str(tmp_path / "file" / "gpus")

    code = main(["measure", "gemm", "--device", "simulated", "--store", store])

    assert code == 2
    assert f"must be a folder in which files can be made, got {store}" in capsys.readouterr().err
