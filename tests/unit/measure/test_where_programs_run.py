"""A program must work on the GPU that is measured."""

import pytest
from fake_gpu import FOREIGN_PID
from simulated_lab import typical

from joulelab.core.configuration import Configuration
from joulelab.core.device import GpuProcess
from joulelab.sampling.host import WorkloadFailedError, WorkloadHost
from joulelab.workloads import WORKLOADS
from joulelab.workloads.program import workload_type


class Real:
    """A GPU on which programs run themselves, with what the driver says of its processes."""

    def __init__(self, device, pids=()):
        self._device = device
        self.listed = list(pids)

    def __getattr__(self, name):
        return getattr(self._device, name)

    def host(self, workload):
        return workload

    def read_processes(self):
        return tuple(GpuProcess(pid=pid) for pid in self.listed)


def prepared(device, program):
    WORKLOADS.programs.hold("here.program", workload_type(program))
    return prepared_by_name(device, "here.program")


def prepared_by_name(device, name, **knobs):
    host = WorkloadHost(device)
    host.make(Configuration.of(name, knobs))
    host.prepare()
    return host


def test_a_program_that_leaves_the_gpu_alone_is_refused(tmp_path):
    device = Real(typical(tmp_path))

    with pytest.raises(WorkloadFailedError, match="did nothing on SIM-h200_sxm"):
        prepared(device, lambda: None)


def test_the_process_that_comes_with_the_first_call_is_the_programs(tmp_path):
    device = Real(typical(tmp_path))

    host = prepared(device, lambda: device.listed.__setitem__(slice(None), [FOREIGN_PID]))

    assert FOREIGN_PID in host.own_pids


@pytest.mark.parametrize(
    ("listed", "own"), [([FOREIGN_PID], {FOREIGN_PID}), ([FOREIGN_PID, FOREIGN_PID + 1], set())]
)
def test_who_was_on_the_gpu_alone_before_a_program_that_uses_it_is_the_program(
    tmp_path, monkeypatch, listed, own
):
    """In a container the driver lists it under another number than it knows itself by."""
    monkeypatch.setattr("joulelab.sampling.host.uses", lambda uuid: True)

    host = prepared(Real(typical(tmp_path), pids=listed), lambda: None)

    assert host.own_pids & set(listed) == own


def test_a_process_that_was_there_before_is_not_taken_for_the_programs(tmp_path):
    device = Real(typical(tmp_path), pids=[FOREIGN_PID])

    host = prepared(device, lambda: None)

    assert FOREIGN_PID not in host.own_pids


def test_a_workload_that_runs_on_the_processor_is_not_said_to_cost_what_an_idle_gpu_draws(tmp_path):
    device = Real(typical(tmp_path))

    with pytest.raises(WorkloadFailedError, match="works on another GPU, or on none"):
        prepared_by_name(device, "gemm", n=64, precision="fp32")


def test_idling_needs_no_process_on_the_gpu(tmp_path):
    prepared_by_name(Real(typical(tmp_path)), "idle")
