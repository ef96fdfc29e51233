"""Times of kernels from two passes over a program."""

import gzip
import json

import numpy as np
import pytest
import torch
from kineto_traces import host, kernel, write_trace

from joulelab.attribution import torch_source
from joulelab.attribution.kineto import Launches, Signature, read_trace
from joulelab.attribution.torch_calls import IN_A_ROW, MARK, RecordedCall, Steps
from joulelab.attribution.torch_source import MarkedLaunches, owners, paced_by_name
from joulelab.tracing.program import ALL_REDUCE, Operator


def launches(*kernels):
    """Kernels of a warm run: names and times, one after the other."""
    names = [name for name, _ in kernels]
    durations_s = np.array([duration_s for _, duration_s in kernels])
    count = len(kernels)
    return Launches(
        signatures=tuple(Signature(name, 0, 7, (1,), (1,), 0) for name in names),
        signature=np.arange(count),
        start_s=np.cumsum(durations_s) - durations_s,
        duration_s=durations_s,
        range=np.full(count, -1),
        ranges=(),
        operator=np.full(count, -1),
        operators=(),
    )


def marked(*kernels):
    return MarkedLaunches(
        calls={},
        names=[name for name, _ in kernels],
        owner=np.arange(len(kernels)),
        duration_s=np.array([duration_s for _, duration_s in kernels]),
        lost=0,
    )


def test_kernels_of_one_name_keep_the_times_of_their_shapes_at_the_pace_of_the_warm_run():
    """A diffusion's normalisations all had the mean of their name, small and large ones alike."""
    once = marked(("norm", 10e-6), ("gemm", 50e-6), ("norm", 70e-6))
    warm = launches(("norm", 8e-6), ("norm", 56e-6), ("gemm", 40e-6), ("gemm", 40e-6))

    paced_s = paced_by_name(once, warm)

    assert paced_s == pytest.approx([8e-6, 40e-6, 56e-6])


def test_a_kernel_that_the_warm_run_did_not_launch_keeps_its_own_time():
    paced_s = paced_by_name(marked(("only once", 30e-6)), launches(("gemm", 40e-6)))

    assert paced_s == pytest.approx([30e-6])


SUM = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
IN_ORDER = (("gemm", 0), (SUM, None), ("add", 2), (SUM, None))


def traced(folder, kernels=IN_ORDER):
    """Kernels as they come: each from a marked call; sums within PyTorch's own range in theirs."""
    events = []
    for place, (name, number) in enumerate(kernels):
        start_us, call = 100.0 * place, place if number is None else number
        events.append(host("user_annotation", f"{MARK}{call}", start_us, 50.0))
        if number is None:
            events.append(host("user_annotation", "nccl:all_reduce", start_us + 5, 30.0))
        events.append(
            host("cuda_runtime", "cudaLaunchKernelExC", start_us + 10, 1.0, correlation=place + 1)
        )
        events.append(kernel(name, start_us + 20, 5.0, place + 1))
    return read_trace(write_trace(folder / "trace.json", events))


def call_of(name):
    operator = Operator(name=name, kind="copy", flop=0.0, read_b=1.0, weight_b=0.0, written_b=1.0)
    return RecordedCall(operator=operator, kernel=name, function=None)


def test_kernels_of_sums_belong_to_the_sums_that_launched_them(tmp_path):
    calls = dict(enumerate(map(call_of, ("mm", ALL_REDUCE, "add", ALL_REDUCE))))

    assert owners(traced(tmp_path), calls).tolist() == [0, 1, 2, 3]


def test_kernels_of_sums_that_are_not_those_recorded_belong_to_none(tmp_path):
    calls = dict(enumerate(map(call_of, ("mm", ALL_REDUCE, "add"))))

    assert owners(traced(tmp_path), calls).tolist() == [0, -1, 2, -1]


def test_executions_that_differ_say_in_which_kernels(monkeypatch):
    """Half of the time was once of kernels that only the marked execution had."""
    once = marked(("gemm", 1e-6), ("copy", 1e-6), ("copy", 1e-6))
    warm = launches(*[("gemm", 1e-6), ("copy", 1e-6), ("add", 1e-6)] * 6)
    monkeypatch.setattr(torch_source, "read_profile", lambda *_: warm)

    _, notes = torch_source.timed_launches(Steps(once=int, whole=int), once, 1.0)

    (note,) = notes
    assert "The marked one had +1 x copy; -1 x add." in note


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize(("rank", "name"), [(None, "decode.json.gz"), (1, "decode-rank-1.json.gz")])
def test_a_trace_that_is_asked_for_is_kept(monkeypatch, tmp_path, rank, name):
    """Without a GPU there is a trace, of the host alone."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    folder = tmp_path / "made" / "traces"

    with monkeypatch.context() as patched:  # the profiler asks for the rank as well
        patched.setattr(torch_source.distributed, "is_initialized", lambda: rank is not None)
        patched.setattr(torch_source.distributed, "get_rank", lambda: rank)
        path = torch_source.trace_path(folder, "decode")
    ones = torch.ones(8)
    taken_s = torch_source.keep_trace(Steps(once=lambda: ones + ones, whole=int), path)

    assert 0 < taken_s < 10
    assert [each.name for each in folder.iterdir()] == [name]
    with gzip.open(folder / name) as file:
        events = json.load(file)["traceEvents"]
    added = [event for event in events if event.get("name") == "aten::add"]
    assert len(added) == IN_A_ROW
    assert added[0]["args"]["Input Dims"][:2] == [[8], [8]]
