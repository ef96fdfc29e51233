"""Attributions of BLOOM on a simulated A100, and what its kernels truly take."""

import pytest
from planted_attributions import GPU, KNOBS, attribute

from joulelab.attribution.simulated_source import SimulatedSource
from joulelab.attribution.traced import traced_program
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS


@pytest.fixture(scope="session")
def replayed(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("replayed"))


@pytest.fixture(scope="session")
def by_classes(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("classes"), "classes")


@pytest.fixture(scope="session")
def source():
    return SimulatedSource(GPUS[GPU], traced_program(WORKLOADS["bloom"].from_knobs(KNOBS)))
