"""A package that is only installed adds to every table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.registry import Registry

ROOT = Path(__file__).parents[2]
MODULE = """
from joulelab.core.cost import PhaseCost
from joulelab.devices.simulated import SimulatedDevice
from joulelab.objectives import Objective
from joulelab.power_models.members.tabular import MeanModel
from joulelab.searching.strategies.listed import Grid

def pause(batch: int = 2):
    pass

def cost(batch):
    return PhaseCost(phase="run", work=1, wait_s=0.01 * batch)

pause.cost, pause.unit = cost, "pause"

class OtherMean(MeanModel):
    name = "other-mean"

class OtherGrid(Grid):
    pass

class Twin(SimulatedDevice):
    pass

patient = Objective(name="named otherwise", time_exponent=0.5)
"""
ENTRIES = """
[joulelab.workloads]
pause = a_plug_in:pause
gemm = a_plug_in:pause
broken = a_broken_plug_in:workload
[joulelab.devices]
twin = a_plug_in:Twin
broken = a_broken_plug_in:Device
[joulelab.power_models]
other-mean = a_plug_in:OtherMean
broken = a_broken_plug_in:Model
misnamed = a_plug_in:OtherMean
[joulelab.objectives]
patient = a_plug_in:patient
broken = a_broken_plug_in:objective
[joulelab.strategies]
other-grid = a_plug_in:OtherGrid
broken = a_broken_plug_in:Strategy
wrong = a_plug_in:pause
"""


@pytest.fixture
def installed(tmp_path):
    """A package as pip leaves it: its modules, and a folder of metadata beside them."""
    (tmp_path / "a_plug_in.py").write_text(MODULE)
    (tmp_path / "a_broken_plug_in.py").write_text("import something_that_nobody_has\n")
    metadata = tmp_path / "a_plug_in-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plug-in\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    path = os.pathsep.join(map(str, (ROOT / "platform", ROOT / "actors", tmp_path)))

    def run(*words):
        return subprocess.run(
            [sys.executable, *words],
            env=os.environ | {"PYTHONPATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


TABLES = """
from joulelab.devices import DEVICES
from joulelab.objectives import OBJECTIVES
from joulelab.power_models import POWER_MODELS
from joulelab.searching.strategies import STRATEGIES
from joulelab.workloads import WORKLOADS

for table in (DEVICES, OBJECTIVES, POWER_MODELS, STRATEGIES, WORKLOADS):
    print(*table)
print(OBJECTIVES["patient"].time_exponent, WORKLOADS["gemm"].__name__, WORKLOADS["pause"].unit)
print(sorted(WORKLOADS.loadable())[:1], POWER_MODELS["other-mean"].name, DEVICES["twin"])
print(issubclass(STRATEGIES["other-grid"], STRATEGIES["grid"]))
"""


def test_a_package_that_is_only_installed_is_in_every_table(installed):
    done = installed("-c", TABLES)

    devices, objectives, models, strategies, workloads, *lines = done.stdout.splitlines()
    assert not {"twin", "broken"} - set(devices.split()), done.stderr
    assert "patient" in objectives.split()
    assert "other-mean" in models.split()
    assert "other-grid" in strategies.split()
    assert "pause" in workloads.split()
    assert lines[0] == "0.5 Gemm pause"
    assert lines[2] == "True"


def test_a_plug_in_is_measured_by_the_command_and_a_broken_one_beside_it_is_named(
    installed, tmp_path
):
    done = installed(
        *("-m", "joulelab.cli.main", "measure", "pause", "--batch", "3", "--observe-only"),
        *("--device", "simulated", "--store", str(tmp_path / "s"), "--procedure.idle-s", "0"),
    )

    assert done.returncode == 0, done.stderr
    assert "J/pause" in done.stdout
    [warning] = [line for line in done.stderr.splitlines() if "cannot be used" in line]
    assert "'broken' of the package a-plug-in" in warning
    assert "something_that_nobody_has" in warning


def test_a_plug_in_of_a_built_in_name_is_said_to_be_left_out(installed):
    """It was left out without a word, and the built-in one measured in its place."""
    done = installed("-m", "joulelab.cli.main", "measure", "gemm", "--help")

    [warning] = [line for line in done.stderr.splitlines() if "is left out" in line]
    assert "'gemm' of the package a-plug-in" in warning


def test_a_broken_plug_in_says_so_when_it_is_asked_for(installed):
    done = installed("-m", "joulelab.cli.main", "measure", "broken", "--device", "simulated")

    assert done.returncode == 2
    assert "The workload 'broken' of the package a-plug-in" in done.stderr.splitlines()[-1]


def test_a_plug_in_of_another_family_is_refused(installed):
    done = installed(
        "-c", "from joulelab.searching.strategies import STRATEGIES; STRATEGIES['wrong']"
    )

    assert "a search strategy must be a subclass of Strategy" in done.stderr


def test_a_model_that_could_not_be_found_again_by_its_name_is_refused(installed):
    done = installed("-c", "from joulelab.power_models import POWER_MODELS as m; m['misnamed']")

    assert "must have the name of its entry point, 'misnamed'" in done.stderr
    assert "OtherMean has 'other-mean'" in done.stderr


COSTS = """
from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures, Outcome
from joulelab.study.events import result_of

figures = Figures(energy_j=2.0, energy_u_j=0.0, time_s=4.0, time_u_s=0.0, power_w=1.0, board="b")
outcome = Outcome(candidate=Configuration.of("pause", {"batch": 1}), figures=figures)
print({k: round(v, 9) for k, v in result_of(outcome).items() if k in ("edp", "patient", "broken")})
"""


def test_a_trial_is_told_by_all_objectives_but_those_that_are_broken(installed):
    """Every search on Ray ended with an error after its first trial, whatever its objective."""
    done = installed("-c", COSTS)

    assert done.stdout.strip() == "{'edp': 8.0, 'patient': 4.0}", done.stderr
    [warning] = [line for line in done.stderr.splitlines() if "cannot be used" in line]
    assert "The objective 'broken' of the package a-plug-in" in warning


def test_a_plug_in_of_a_clean_table_cannot_be_had_by_a_wrong_name():
    table: Registry[object] = Registry("thing", {"one": "json:dumps"}, group="joulelab.nobody")

    assert list(table) == ["one"]
    with pytest.raises(UnknownNameError, match="Unknown thing 'two'"):
        table["two"]
    with pytest.raises(ConfigError):
        Registry("thing", {}, base=int).accept("text", "text")
