"""GPUs of several products in one cluster."""

from collections import Counter
from pathlib import Path

import pytest
from actor_fixtures import QUICK
from mlflow import MlflowClient

import joulelab
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.tracking.store import ResultStore

ROOT = Path(__file__).parents[2]
KINDS = ("a100_sxm", "h100_sxm")
A100, H100 = (GPUS[key].product_names[0] for key in KINDS)
CLOCKS_MHZ = (1200, 990, 810)

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")


@pytest.fixture
def make_lab(cluster, tmp_path, guard_socket, monkeypatch):
    from joulelab_actors.laboratory import Laboratory

    monkeypatch.setenv("RAY_ADDRESS", cluster)

    def make(**changes):
        usual = {
            "gpu": KINDS,
            "num_gpus": 2,
            "store": tmp_path / "driver",
            "results_dir": tmp_path / "results",
            "guard_socket": guard_socket,
            "procedure": QUICK,
            "tracking_uri": "none",
            "study": "mixed",
        }
        return Laboratory(**usual | changes)

    return make


def test_a_sweep_of_a_mixed_cluster_measures_the_plan_on_the_boards_of_each_product(
    make_lab, store_uri
):
    found = joulelab.sweep(
        "stream", clocks_mhz=CLOCKS_MHZ, repeats=2, lab=make_lab(tracking_uri=store_uri)
    )

    planned = [m for m in found.measurements if not m.sentinel]
    assert Counter(m.device.name for m in planned) == {A100: 8, H100: 8}
    assert found.summary.complete
    assert found.summary.delivery.error is None
    assert [phase.device_name for phase in found.result.phases] == [A100, H100]
    assert [len(phase.boards) for phase in found.result.phases] == [2, 2]
    client = MlflowClient(store_uri)
    [experiment] = [e for e in client.search_experiments() if e.name == "mixed"]
    runs = client.search_runs(
        [experiment.experiment_id], f"tags.`device.name` = '{H100}'", max_results=100
    )
    assert {run.data.tags["trial"] for run in runs} == {
        m.trial for m in found.measurements if m.device.name == H100
    }


def test_a_study_of_one_product_is_chosen_before_gpus_are_counted(make_lab):
    with make_lab(gpu_product="h100").open() as sites:
        assert [site.identity.name for site in sites] == [H100, H100]
    with pytest.raises(ConfigError, match="choose one with --gpu-product"), make_lab().open():
        pass


def test_the_experiment_takes_several_products_before_the_workload(
    make_lab, run_script, tmp_path, guard_socket, capsys
):
    words = [
        *("--gpu", *KINDS, "stream", "--num-gpus", "1", "--study", "mixed", "--repeats", "1"),
        *("--mode", "custom", "--clocks-mhz", *map(str, CLOCKS_MHZ), "--tracking-uri", "none"),
        *("--store", str(tmp_path / "driver"), "--guard-socket", str(guard_socket)),
        *("--results-dir", str(tmp_path / "results"), "--procedure.idle-s", "0"),
    ]

    code = run_script(ROOT / "experiments/dvfs_sweep.py", *words)

    stored = ResultStore(tmp_path / "results/mixed").read()
    printed = capsys.readouterr().out
    assert code == 0
    assert {m.device.name for m in stored} == {A100, H100}
    assert A100 in printed
    assert H100 in printed
