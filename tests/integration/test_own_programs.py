"""Programs of users on the nodes of a cluster: their files travel with the job."""

import sys

import pytest
from actor_fixtures import STUDY

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.program import workload_type

SOURCE = """
from beside_the_sent import FLOP
from joulelab.core.cost import KernelCost, PhaseCost

def step():
    pass

def cost():
    kernel = KernelCost(name="gemm", pipe="tensor_bf16", flop=FLOP, dram_b=1e8)
    return PhaseCost(phase="run", work=1, kernels=(kernel,))

step.cost = cost
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "sent.py").write_text(SOURCE)
    (tmp_path / "beside_the_sent.py").write_text("FLOP = 4e11\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("beside_the_sent", None)


def trials(program):
    configuration = Configuration.of(program)
    return [Trial(study=STUDY, name=f"t{n}", configuration=configuration) for n in range(3)]


def test_a_file_travels_to_every_node_with_what_it_imports(study, folder):
    WORKLOADS["sent.py:step"]  # relative to a folder in which no node works

    summary, _ = study(trials("sent.py:step"), num_gpus=3)

    assert summary.num_valid == 3, summary
    assert not summary.quarantined


def test_an_object_is_refused_before_anything_starts(study):
    WORKLOADS.programs.hold("here.step", workload_type(lambda: None, cost=lambda: None))

    with pytest.raises(ConfigError, match="no other can find it; name it as FILE"):
        study(trials("here.step"))
