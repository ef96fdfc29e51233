"""The Python examples of the documentation run, on simulated GPUs of their own."""

import inspect
import re
import runpy
from functools import partial
from pathlib import Path

import pytest
import torch
from doc_pages import PAGES, ROOT, blocks, name_of, write_files
from synthetic_runs import write_runs
from undrawn import undrawn

import joulelab
from joulelab import estimator, seeker
from joulelab.devices import choice
from joulelab.devices.simulated import fleet, store
from joulelab.guard import client
from joulelab.monitor import Measured
from joulelab.study.budget import Budget
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.disk_cache import user_folder

as_markdown = runpy.run_path(str(ROOT / "docs/site/roles.py"))["as_markdown"]
WITH_EXAMPLES = [page for page in PAGES if blocks(page.read_text(), "python")]
DOCSTRINGS = {
    name: code
    for name, each in {
        "joulelab": joulelab,
        "joulelab.estimator": estimator,
        **{name: getattr(joulelab, name) for name in joulelab.__all__},
    }.items()
    if (code := blocks(as_markdown(inspect.getdoc(each) or ""), "python"))
}


class Data(torch.utils.data.Dataset):
    """Four samples of two tokens."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"input_ids": torch.arange(2) + index, "labels": torch.tensor(float(index))}


class Net(torch.nn.Module):
    """A network of one weight."""

    main_input_name = "input_ids"

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, input_ids, labels):
        return {"loss": ((self.weight * input_ids.float().mean(1) - labels) ** 2).mean()}


class Tracker:
    """Any that logs metrics."""

    def log(self, metrics):
        self.metrics = metrics


def training(folder):
    """Return what a page on training leaves to its reader."""
    from transformers import TrainingArguments

    arguments = TrainingArguments(output_dir=str(folder), max_steps=2, use_cpu=True, report_to=[])
    return {
        "model": Net(),
        "arguments": arguments,
        "data": Data(),
        "batches": [[0] * 4] * 3,
        "tracker": Tracker(),
    }


SMALLER = {"every": 40, "num_trials": 6, "num_samples": 3, "max_concurrent_trials": 1}


def smaller(code):
    """The same with fewer clocks, trials and actors."""
    for option, most in SMALLER.items():
        code = re.sub(rf"\b{option}=\d+", f"{option}={most}", code)
    return code.replace("Laboratory(gpu=", "Laboratory(num_gpus=1, gpu=")


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What examples leave to their reader: a program, a table, a folder; and a GPU, simulated."""
    monkeypatch.setattr(choice, "choose_backend", lambda: choice.Choice(name="simulated", why=""))
    monkeypatch.setattr(seeker, "Budget", partial(Budget, num_trials=6))  # where none is given
    monkeypatch.setattr(store, "default_root", lambda: tmp_path / "driver")
    monkeypatch.setattr(client, "default_socket_path", lambda *_: tmp_path / "guard" / "s")
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(user_folder("trained").parents[1])
    )  # with what was trained
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    fleet("h200_sxm", 1, str(tmp_path / "driver"))
    write_files("", tmp_path)
    step = runpy.run_path("train.py")["step"]
    names = {
        "train": step,
        "step": step,
        "path": write_runs(tmp_path / "runs.csv"),
        "folder": tmp_path / "model",
        "network": torch.nn.Linear(256, 64).half(),
        "images": torch.zeros(1024, 256).half(),
    }
    with undrawn():
        yield names
    for measured in [each for each in names.values() if isinstance(each, Measured)]:
        measured._monitor.stop()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_run_one_after_the_other(page, names):
    write_files(page.read_text(), Path.cwd())
    if page.name == "own_training.md":
        ensure_torchvision()  # which both import
        pytest.importorskip("accelerate")  # what a Trainer needs
        pytest.importorskip("lightning")
        names |= training(Path.cwd())
    if page.name == "own_program.md":
        fleet("h200_sxm", 2, "driver")
    for number, code in enumerate(blocks(page.read_text(), "python"), start=1):
        exec(compile(smaller(code), f"{name_of(page)}, example {number}", "exec"), names)


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_the_examples_of_a_public_docstring_run(name, names):
    names |= {"joulelab": joulelab, "batch": None}
    for code in DOCSTRINGS[name]:
        exec(compile(smaller(code), name, "exec"), names)


def test_the_examples_of_the_readme_and_of_monitor_are_among_those_that_run():
    assert ROOT / "README.md" in WITH_EXAMPLES
    assert {"joulelab", "Monitor", "measured"} <= set(DOCSTRINGS)
