"""``--device auto`` takes the best way to talk to GPUs that a node has, and says what is lost."""

import pytest
from fake_tools import FakeSmi

from joulelab.errors import DeviceNotFoundError
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import find_sites


@pytest.fixture
def smi_alone(cluster, node_tools):
    """The nodes have no NVML and no DCGM, but an ``nvidia-smi``."""
    FakeSmi(node_tools)
    yield
    for path in node_tools.iterdir():
        path.unlink()


def test_a_study_falls_back_to_what_its_nodes_have_and_says_so_once_per_node(
    smi_alone, tmp_path, capsys
):
    lab = Laboratory(device="auto", results_dir=tmp_path, tracking_uri="none")

    with lab.open() as sites:
        backends = [site.identity.backend for site in sites]

    assert backends == ["smi"]
    _, told = capsys.readouterr().err.splitlines()  # first, that Ray is looked for
    assert "Falling back to smi: energy comes from polled power" in told
    assert told.startswith(f"{sites[0].hostname}: ")


def test_a_way_that_was_asked_for_by_name_is_no_fallback(smi_alone, tmp_path, capsys):
    with Laboratory(device="smi", results_dir=tmp_path, tracking_uri="none").open() as sites:
        pass

    assert sites[0].fallback is None
    assert "Falling back" not in capsys.readouterr().err


def test_a_cluster_without_gpus_says_what_every_node_tried(cluster):
    with pytest.raises(DeviceNotFoundError, match=r"No node of the cluster has a GPU.*nvml: .*smi"):
        find_sites("auto")
