"""A study goes on by its name with what it began with, and with nothing else."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Generic, TypeVar

import pytest
import tyro
from synthetic_results import header

import joulelab
from joulelab.cli.study import parse_study, parse_with_workload
from joulelab.errors import ConfigError
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import flat_settings
from joulelab.workloads.launch_loop import GemmSettings

Settings = TypeVar("Settings")
OURS = "experiments/dvfs_sweep.py"


@dataclass(frozen=True, kw_only=True)
class Sweep(Generic[Settings]):
    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[joulelab.Lab, tyro.conf.arg(name="")] = field(default_factory=joulelab.Lab)
    every: int = 1
    objective: str = "edp"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    lab: Annotated[joulelab.Lab, tyro.conf.arg(name="")] = field(default_factory=joulelab.Lab)
    recipe: str = "all"


@pytest.fixture
def go_on(tmp_path, monkeypatch):
    """Ask with words for study s3, which began as ``gemm --batch 8 --every 4``."""
    monkeypatch.setattr("sys.argv", [OURS])
    lab = joulelab.Lab(results_dir=tmp_path, study="s3")
    began = Sweep(workload=GemmSettings(batch=8), lab=lab, every=4)
    store = ResultStore(tmp_path / "s3")
    made = header(command=(OURS,), settings=flat_settings(began), workloads=("gemm",))

    def ask(*words, kind=Sweep, **changes):
        store.write_study(replace(made, **changes))
        place = ("--results-dir", str(tmp_path), "--study", "s3")
        if kind is Baseline:
            monkeypatch.setattr("sys.argv", ["experiments/baseline.py", *words, *place])
            return parse_study(Baseline, None)
        return parse_with_workload(kind, [*words, *place])

    return ask


def test_another_workload_is_refused(go_on):
    """``joulelab study dvfs --study s3`` swept the default workload into the folder of s3."""
    with pytest.raises(ConfigError, match=r"of gemm, but stream is asked for; repeat the options"):
        go_on("stream")


def test_other_settings_of_the_workload_are_refused(go_on):
    with pytest.raises(ConfigError, match=r"workload.batch=8, but workload.batch=64 is asked for"):
        go_on("gemm", "--batch", "64")


@pytest.mark.parametrize("words", [("--objective", "energy"), ("--procedure.window-s", "1")])
def test_what_the_figures_rest_on_is_not_changed(go_on, words):
    with pytest.raises(ConfigError, match=r"give another name with --study"):
        go_on("gemm", "--batch", "8", *words)


@pytest.mark.parametrize("words", [("--every", "4"), ("--every", "1"), ("--gpu-product", "a100")])
def test_what_it_began_with_goes_on_with_more_clocks_or_elsewhere(go_on, words):
    assert go_on("gemm", "--batch", "8", *words).workload.batch == 8


def test_the_folder_of_another_script_is_refused(go_on):
    with pytest.raises(ConfigError, match=r"of kind 'dvfs', but kind 'baseline' is asked"):
        go_on(kind=Baseline)


def test_another_recipe_is_refused(go_on):
    of = {"command": ("experiments/baseline.py",), "settings": (("recipe", "limits"),)}
    assert go_on("--recipe", "limits", kind=Baseline, **of).recipe == "limits"

    with pytest.raises(ConfigError, match=r"of recipe=limits, but recipe=all is asked for"):
        go_on(kind=Baseline, **of)


def test_a_folder_of_before_goes_on_and_so_does_one_of_a_script_of_the_users(go_on):
    assert go_on("gemm", "--batch", "8", workloads=())
    assert go_on("gemm", command=("lib.py",), settings=(("program", "gemm"),))
