"""The ways in: from Python and from the command line."""

import json

import numpy as np
import pytest
import torch

import joulelab
from joulelab.cli.main import main
from joulelab.errors import ConfigError, MeasurementError


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(1024)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
        )

    def forward(self, x):
        with joulelab.region("residual path"):
            return x + self.mlp(self.norm(x))


@pytest.fixture
def lab(tmp_path, guard_socket):
    return joulelab.Lab(
        device="simulated",
        gpu="a100_sxm",
        store=tmp_path / "store",
        results_dir=tmp_path,
        guard_socket=guard_socket,
        progress=False,
    )


def test_a_module_of_the_users_own_is_attributed_with_its_region(lab, tmp_path):
    network = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(1024, 16)).half()
    study = joulelab.attribute(network, (torch.randn(4096, 1024).half(),), lab=lab)

    names = [share.name for share in study.components()]
    assert "residual path" in names
    assert "feed-forward" not in names  # the region is around it
    frame = study.to_frame()
    layers = frame[(frame["level"] == "layer") & frame["name"].isin(["0", "1"])]
    assert layers["energy_per_unit_j"].iloc[0] == pytest.approx(
        layers["energy_per_unit_j"].iloc[1], rel=1e-6
    )
    assert "forward takes " in str(study)
    assert study.report(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_the_energy_of_a_layer_is_what_another_layer_adds(lab):
    """This needs no trust in kernels: the meter alone says what depth costs."""
    inputs = (torch.randn(8192, 1024).half(),)
    depths, metered_j, study = [2, 4, 6, 8], [], None
    for depth in depths:
        network = torch.nn.Sequential(*(Block() for _ in range(depth))).half()
        method = "replay" if depth == depths[-1] else "classes"
        study = joulelab.attribute(network, inputs, method=method, lab=lab)
        metered_j.append(study.found.phases[0].energy_j)
    slope_j = np.polyfit(depths, metered_j, 1)[0]
    layers_j = [s.energy_j for s in study.found.phases[0].by_layer if s.name.isdigit()]

    assert len(layers_j) == depths[-1]
    assert np.mean(layers_j) == pytest.approx(slope_j, rel=0.05)


def test_several_phases_must_be_told_apart(replayed, tmp_path):
    from joulelab.attributor import AttributionStudy

    study = AttributionStudy(found=replayed[0], folder=tmp_path)

    with pytest.raises(ConfigError, match="prefill, decode"):
        study.components()
    assert study.components("decode") == replayed[0].phase("decode").by_component


def test_inputs_are_for_a_module(lab):
    with pytest.raises(ConfigError, match=r"torch\.nn\.Module"):
        joulelab.attribute(print, (1,), lab=lab)


@pytest.mark.parametrize(
    "asked",
    [{"knobs": {"batch": 3}}, {"knobs": {"precision": "bf16"}}, {"vary": {"batch": [1, 8]}}],
    ids=["batch", "precision", "variants"],
)
def test_a_module_has_no_settings_that_its_inputs_have_not(lab, asked):
    """Energies of one and the same call were told as those of a batch of 3, of 8, and of bf16."""
    with pytest.raises(ConfigError, match="on the inputs that it is given"):
        joulelab.attribute(torch.nn.Linear(8, 8), (torch.ones(4, 8),), lab=lab, **asked)


def test_a_module_in_double_precision_is_refused_by_its_parameters(lab):
    """Which were said to be fine; a precision was named that nobody had asked for."""
    with pytest.raises(ConfigError, match=r"of 16 or 32 bits, got torch\.float64"):
        joulelab.attribute(torch.nn.Linear(8, 8).double(), (torch.ones(4, 8).double(),), lab=lab)


def test_a_method_that_there_is_not_is_refused(lab):
    """Any word was taken for replay."""
    with pytest.raises(ConfigError, match="Did you mean 'classes'"):
        joulelab.attribute(torch.nn.Linear(8, 8), (torch.ones(4, 8),), lab=lab, method="clases")


def test_what_is_no_network_is_refused_on_a_simulated_gpu(lab):
    with pytest.raises(ConfigError, match="must be a network, got Gemm"):
        joulelab.attribute("gemm", lab=lab)


def test_a_recording_holds_no_kernels(tmp_path):
    table = tmp_path / "sweep.csv"
    table.write_text("gpu,app,sm_clock_mhz,power_w,time_s\nA100(GA100),bfs,1410,200,1\n")
    lab = joulelab.Lab(
        device="replay", store=table, results_dir=tmp_path, observe_only=True, progress=False
    )
    with pytest.raises(ConfigError, match="holds no kernels"):
        joulelab.attribute("recorded", knobs={"app": "bfs"}, lab=lab)


def test_a_compiled_program_has_no_calls(lab):
    knobs = {"model": "bloom-560m", "compile": True, "kv_cache": "static"}
    with pytest.raises(ConfigError, match="leave out compile"):
        joulelab.attribute("bloom", knobs=knobs, lab=lab)


def test_a_program_that_does_not_fit_says_so(lab):
    with pytest.raises(MeasurementError, match="are needed"):
        joulelab.attribute("llama", knobs={"model": "llama-2-13b", "batch": 512}, lab=lab)


WORDS = ["attribute", "--device", "simulated", "--gpu", "a100_sxm", "--observe-only"]
BLOOM = ["bloom", "--model", "bloom-560m", "--new-tokens", "4"]


def test_the_command_prints_parts_and_writes_the_page(tmp_path, capsys):
    out = tmp_path / "found.html"
    words = [*WORDS, "--store", str(tmp_path), "--layers", "--kernels", "--out", str(out), *BLOOM]

    assert main(words) == 0
    told = capsys.readouterr()
    assert "prefill takes " in told.out
    assert "transformer.h.23" in told.out
    assert f"Written to {out}" in told.out
    assert "Replaying kernel 1 of at most " in told.err
    assert "</html>" in out.read_text()


def test_the_command_answers_in_json(tmp_path, capsys):
    words = [*WORDS, "--store", str(tmp_path), "--method", "classes", "--json", *BLOOM]

    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "classes"
    levels = {part["level"] for part in found["parts"]}
    assert levels == {"component", "stage", "layer", "operator", "kernel"}


def test_a_training_step_has_its_stages_apart(tmp_path, capsys):
    words = [*WORDS, "--store", str(tmp_path), "lstm"]

    assert main(words) == 0
    told = capsys.readouterr().out
    training = told[told.index("train takes ") :]
    assert all(f" {stage} " in training for stage in ("forward", "backward", "optimizer"))
    assert " backward " not in told[: told.index("train takes ")]


def test_traces_of_a_simulated_gpu_are_refused_before_anything_runs(tmp_path, capsys):
    words = [*WORDS, "--store", str(tmp_path), "--traces", str(tmp_path / "traces"), *BLOOM]

    assert main(words) == 2
    answered = capsys.readouterr()
    assert "Only a real GPU has traces to keep" in answered.err
    assert not (tmp_path / "traces").exists()


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, capsys):
    assert main([*WORDS, "--out", str(tmp_path / "found.txt"), *BLOOM]) == 2
    assert "must end in .html or .csv" in capsys.readouterr().err
