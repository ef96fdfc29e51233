"""Attributions by a pinned actor of a Ray cluster, from the script to MLflow."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from actor_fixtures import QUICK

import joulelab
from joulelab.analysis.attributed.page import EXPERIMENT
from joulelab.errors import ConfigError
from joulelab.workloads.language import BloomSettings
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.laboratory import Laboratory

SCRIPT = Path(__file__).parents[2] / "experiments" / "attribution.py"
BLOOM = BloomSettings(model="tiny", precision="fp16", new_tokens=4)


@pytest.fixture
def lab(cluster, tmp_path):
    return Laboratory(
        gpu="a100_sxm",
        num_gpus=1,
        store=tmp_path / "driver",
        study="it",
        results_dir=tmp_path,
        procedure=replace(QUICK, idle_s=1.0),
    )


@pytest.mark.usefixtures("store_uri")  # made there already, which takes seconds
def test_the_script_attributes_on_an_actor_and_keeps_files_and_a_run(lab, tmp_path, capsys):
    script = runpy.run_path(str(SCRIPT))
    asked = script["AttributeEnergy"](workload=BLOOM, lab=lab, method="classes")

    assert script["main"](asked) == 0
    told = capsys.readouterr().out
    assert "decode takes " in told
    found = json.loads((tmp_path / "it" / "attribution.json").read_text())
    assert [phase["phase"] for phase in found["phases"]] == ["prefill", "decode"]
    client = mlflow.MlflowClient(lab.store_uri)
    (run,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    assert run.data.metrics["decode.closure"] == pytest.approx(found["phases"][1]["closure"])
    assert run.info.status == "FINISHED"


def test_the_script_attributes_two_gpus_that_share_a_program_after_two_contexts(lab, tmp_path):
    script = runpy.run_path(str(SCRIPT))
    llama = LlamaSettings(model="tiny", new_tokens=2, tensor_parallel=2)
    pair = replace(lab, gpu="h100_sxm", num_gpus=2, gpus_per_trial=2, tracking_uri="none")
    asked = script["AttributeEnergy"](
        workload=llama, lab=pair, method="classes", contexts=(16, 64), vary=(("batch=1,2",),)
    )

    assert script["main"](asked) == 0
    found = json.loads((tmp_path / "it" / "attribution.json").read_text())
    assert [len(phase["boards"]) for phase in found["phases"]] == [2, 2]
    assert [one["context_tokens"] for one in found["contexts"]] == [16, 64]
    assert [one["knobs"] for one in found["variants"]] == [{"batch": 2}] * 2


def test_what_an_actor_refuses_is_the_error_itself_and_its_gpu_is_free_again(lab):
    knobs = {"compile": True, "kv_cache": "static"}
    for _ in range(2):
        with pytest.raises(ConfigError, match="leave out compile"):
            joulelab.attribute(BLOOM, knobs=knobs, lab=lab)
