"""A workload host keeps what the next trial can use again."""

import os
from types import SimpleNamespace

import pytest
from fake_gpu import FakeGpu, FakeLoad

from joulelab import Configuration
from joulelab.core.device import GpuProcess
from joulelab.errors import ConfigError
from joulelab.sampling.host import WorkloadFailedError, WorkloadHost

TINY = {"model": "tiny", "precision": "fp32", "prompt_tokens": 8, "new_tokens": 2}


@pytest.fixture
def host():
    """Return a host on a device that runs workloads in this process, and says so."""
    device = SimpleNamespace(
        identity=lambda: SimpleNamespace(uuid="SIM-0"),
        host=lambda workload: workload,
        read_processes=lambda: (GpuProcess(pid=os.getpid()),),
        read_state=lambda: None,
    )
    host = WorkloadHost(device)
    yield host
    host.close()


def network(host, **knobs):
    """Prepare a tiny Llama with ``knobs`` and return its network."""
    workload = host.make(Configuration.of("llama", TINY | knobs))
    host.prepare()
    return workload.kept.of(workload.network_key)


def test_workloads_that_differ_in_inputs_run_one_network(host):
    first = network(host, batch=1)

    assert network(host, batch=2) is first
    assert network(host, batch=2, prompt_tokens=5) is first
    assert host.run("decode") == 4


def test_it_knows_what_it_made_last(host):
    first = host.make(Configuration.of("llama", TINY))
    second = host.make(Configuration.of("llama", TINY | {"batch": 2}))

    assert first is not second
    assert host.hosted is second


def test_another_precision_is_another_network(host):
    assert network(host, precision="bf16") is not network(host)


def test_a_network_that_comes_again_later_is_still_there(host):
    """A search that went back to a format loaded its weights once more."""
    first = network(host)
    network(host, precision="bf16")

    assert network(host) is first


def test_networks_of_another_workload_are_not_kept(host):
    first = network(host)
    host.make(Configuration.of("vit", {"model": "tiny", "precision": "fp32"}))
    host.prepare()

    assert network(host) is not first


def test_inputs_are_the_same_whether_the_network_was_there_or_not(host, monkeypatch):
    from joulelab.workloads import vision_network  # imports torch

    drawn = []
    draw = vision_network.random_images

    def noting(*args):
        drawn.append(draw(*args))
        return drawn[-1]

    monkeypatch.setattr(vision_network, "random_images", noting)
    for batch in (2, 1, 2):
        host.make(Configuration.of("vit", {"model": "tiny", "precision": "fp32", "batch": batch}))
        host.prepare()

    assert drawn[0].tolist() == drawn[2].tolist()


def test_knobs_that_are_refused_leave_what_is_prepared(host):
    first = network(host)
    with pytest.raises(ConfigError):
        host.make(Configuration.of("llama", TINY | {"batch": 0}))

    assert host.run("prefill") == 8
    assert network(host, batch=2) is first


def test_a_workload_that_did_nothing_has_failed():
    class Idler(FakeLoad):
        def run(self, phase):
            return 0.0

    class Gpu(FakeGpu):
        def host(self, workload):
            return Idler(self, workload)

    host = WorkloadHost(Gpu())
    host.make(Configuration.of("gemm"))

    with pytest.raises(WorkloadFailedError, match="must do some work"):
        host.run("gemm")
