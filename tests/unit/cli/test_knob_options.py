"""A knob may be called as an option of the command: ``--knob.NAME`` tells them apart."""

from dataclasses import dataclass, field
from typing import Annotated, Generic, TypeVar

import pytest
import tyro

from joulelab.cli.measure import Measure
from joulelab.cli.study import parse_with_workload
from joulelab.workloads.diffusion import DiffusionSettings
from joulelab.workloads.launch_loop import GemmSettings

Settings = TypeVar("Settings")
PROGRAM = """
def step(device: str = "cuda", batch: int = 2):
    pass
"""


@dataclass(frozen=True, kw_only=True)
class Lab:
    store: str = "here"
    gpu: str | tuple[str, ...] = "h200_sxm"


@dataclass(frozen=True, kw_only=True)
class Search(Generic[Settings]):
    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Lab, tyro.conf.arg(name="")] = field(default_factory=Lab)
    seed: int = 0


def parsed(*words, kind=Search):
    return parse_with_workload(kind, words, default=None)


def test_a_knob_and_an_option_of_one_name_are_two_options():
    search = parsed("diffusion", "--knob.seed", "3", "--seed", "4", "--steps", "5")

    assert search.seed == 4
    assert (search.workload.seed, search.workload.steps) == (3, 5)
    assert isinstance(search.workload, DiffusionSettings)


def test_other_knobs_keep_their_names_and_defaults():
    assert parsed("gemm", "--n", "64").workload == GemmSettings(n=64)
    assert parsed("diffusion").workload == DiffusionSettings()


def test_options_of_what_a_command_holds_are_taken_too(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(PROGRAM.replace("device", "store"))

    search = parsed(f"{path}:step", "--knob.store", "there")

    assert (search.workload.store, search.lab.store) == ("there", "here")


def test_a_program_may_have_a_knob_called_device(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)

    measure = parsed(f"{path}:step", "--knob.device", "cpu", "--batch", "8", kind=Measure)

    assert (measure.device, measure.workload.device, measure.workload.batch) == ("auto", "cpu", 8)


def test_an_option_of_several_values_may_stand_before_the_workload():
    search = parsed("--seed", "3", "--gpu", "a100_sxm", "h100_sxm", "gemm", "--n", "64")

    assert search.lab.gpu == ("a100_sxm", "h100_sxm")
    assert search.workload == GemmSettings(n=64)
    assert parsed("--gpu", "a100_sxm", "gemm").lab.gpu == "a100_sxm"


def test_a_value_that_is_called_as_a_workload_stays_one():
    search = parsed("--store", "gemm", "diffusion")

    assert search.lab.store == "gemm"
    assert isinstance(search.workload, DiffusionSettings)


def test_a_knob_that_is_refused_is_refused_under_its_name(capsys):
    with pytest.raises(SystemExit):
        parsed("diffusion", "--knob.sed", "3")

    assert "--knob.seed" in capsys.readouterr().err


def test_without_a_name_the_usual_workload_is_taken_whichever_knobs_others_share_with_it():
    """Searches without a workload's name searched Stable Diffusion, whose seed is an option too."""
    default = Search(workload=GemmSettings(n=2048))

    assert parse_with_workload(Search, ["--seed", "3"], default=default).workload.n == 2048
    named = parse_with_workload(Search, ["diffusion"], default=default).workload
    assert named == DiffusionSettings()
    assert parse_with_workload(Search, ["gemm"], default=default).workload.n == 2048
