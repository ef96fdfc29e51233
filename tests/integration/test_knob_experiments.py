"""The studies of knobs, from their scripts to their answers, on a simulated GPU."""

import importlib.util
import runpy
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from actor_fixtures import QUICK

from joulelab.csv_table import read_csv_table
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.diffusion import DiffusionSettings
from joulelab.workloads.launch_loop import GemmSettings
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.laboratory import Laboratory

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STUDIES = ("precision_study", "batch_scaling", "length_scaling", "diffusion_study", "model_size")
SIZES = ("tiny", "tinyllama", "llama-3.2-1b")
TINY = LlamaSettings(model="tiny", prompt_tokens=16, new_tokens=4)


@pytest.fixture
def run(cluster, tmp_path, monkeypatch):
    """Run a script's study of tiny settings; returns its exit code, answer and table."""

    def run(script, kind, *, gpu="h200_sxm", **settings):
        spec = importlib.util.spec_from_file_location(script, EXPERIMENTS / f"{script}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, script, module)  # dataclasses look themselves up there
        spec.loader.exec_module(module)
        lab = Laboratory(
            gpu=gpu,
            num_gpus=1,
            store=tmp_path / "driver",
            study="it",
            results_dir=tmp_path,
            tracking_uri="none",
            procedure=QUICK,
        )
        code = module.main(getattr(module, kind)(lab=lab, repeats=1, **settings))
        rows = read_csv_table(tmp_path / "it" / "study.csv")
        return code, ResultStore(tmp_path / "it").read_answer(), rows

    return run


def test_formats_that_the_gpu_lacks_are_rows_with_a_reason(run, capsys):
    code, answer, rows = run(
        "precision_study",
        "PrecisionStudy",
        gpu="v100_sxm2",
        workload=GemmSettings(n=2048),
        precisions=("fp32", "fp16", "bf16"),
        batches=(1,),
    )

    assert code == 0
    assert [bool(row["reason"]) for row in rows] == [False, False, True]
    assert float(rows[1]["energy_ratio_high"]) < 1
    assert answer.note.startswith("Least energy: fp16 at batch 1 ")
    assert "cannot run [1]" in capsys.readouterr().out


def test_a_batch_that_the_memory_does_not_hold_is_a_row_with_a_reason(run):
    code, answer, rows = run(
        "batch_scaling", "BatchScaling", workload=GemmSettings(n=4096), batches=(1, 2, 4000)
    )

    assert code == 0
    assert "GB are needed" in rows[2]["reason"]
    assert answer.note.startswith("From batch 1 to 2 energy changes by ")


def test_lengths_that_the_model_cannot_read_are_rows_with_a_reason(run):
    code, answer, rows = run(
        "length_scaling", "LengthScaling", workload=TINY, lengths=(16, 64, 10**6), batches=(1,)
    )

    assert code == 0
    assert {row["phase"] for row in rows} == {"prefill", "decode"}
    assert all(bool(row["reason"]) == (row["prompt_tokens"] == "1000000") for row in rows)
    assert "From 16 to 64 tokens" in answer.note


def test_steps_of_diffusion_are_summed_over_its_phases(run):
    code, answer, rows = run(
        "diffusion_study",
        "DiffusionStudy",
        workload=DiffusionSettings(model="tiny"),
        schedulers=("ddim",),
        resolutions=(64,),
        num_steps=(4, 2),
    )

    energy_j = {(row["phase"], row["steps"]): float(row["energy_per_unit_j"]) for row in rows}
    parts = sum(energy_j[phase, "2"] for phase in ("text_encoder", "denoising", "vae"))
    assert code == 0
    assert energy_j["image", "2"] == pytest.approx(parts, rel=1e-9)
    assert answer.note.startswith("Least energy: ddim, 64 px, 2 steps, ")


def test_models_are_compared_by_their_parameters(run):
    code, answer, rows = run(
        "model_size",
        "ModelSize",
        workload=TINY,
        models=SIZES,
        batches=(1,),
    )

    assert code == 0
    assert [row["model"] for row in rows] == 2 * list(SIZES)
    assert "energy goes with the power " in answer.note
    assert " of the parameters." in answer.note


@pytest.mark.parametrize("script", [*STUDIES, "dvfs_sweep"])
def test_no_option_of_a_study_is_that_of_a_workload(script):
    """``--steps`` of a study beside ``--steps`` of a network crashed the command line."""
    module = runpy.run_path(str(EXPERIMENTS / f"{script}.py"))
    [kind] = [
        each for each in module.values() if is_dataclass(each) and each.__module__ == "<run_path>"
    ]
    own = {field.name for each in (kind, Laboratory) for field in fields(each)}

    for name in module.get("AMONG", WORKLOADS):
        knobs = {field.name for field in fields(WORKLOADS[name].settings_type)}
        assert not own & knobs, name


@pytest.mark.parametrize("script", STUDIES)
def test_a_study_has_a_help_that_names_its_lab(script, run_script, capsys):
    code = run_script(EXPERIMENTS / f"{script}.py", "--help")

    shown = capsys.readouterr().out
    assert code == 0
    assert "--device" in shown
    assert "--observe-only" in shown
