"""Traces of PyTorch's profiler, read event by event."""

import numpy as np
import pytest
from kineto_traces import EVENTS, kernel, write_trace

from joulelab.attribution.kineto import read_trace
from joulelab.errors import ConfigError


@pytest.fixture
def write(tmp_path):
    return lambda events, name="trace.json", **how: write_trace(tmp_path / name, events, **how)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_launches_come_in_order_with_their_range_and_operator(write, name):
    launches = read_trace(write(EVENTS, name))

    assert launches.names == ["gemm", "gemm", "add"]
    assert launches.start_s == pytest.approx([0.0, 15e-6, 30e-6])
    assert launches.duration_s == pytest.approx([10e-6, 12e-6, 2e-6])
    ranges = [launches.ranges[place] if place >= 0 else None for place in launches.range]
    assert ranges == ["inner", None, "outer"]
    operators = [
        launches.operators[place].name if place >= 0 else None for place in launches.operator
    ]
    assert operators == ["aten::linear", None, None]
    assert launches.lost == 0


def test_kernels_that_differ_in_their_grid_are_distinct(write):
    events = [kernel("gemm", 0.0, 1.0, 1), kernel("gemm", 2.0, 1.0, 2, grid=[16, 1, 1])]
    launches = read_trace(write(events))

    assert len(launches.signatures) == 2
    assert launches.signatures[1].grid == (16, 1, 1)


def test_launches_whose_kernels_are_missing_are_counted(write):
    launches = read_trace(write([event for event in EVENTS if event["name"] != "add"]))

    assert launches.lost == 1


def test_a_trace_longer_than_a_piece_is_read_whole(write, monkeypatch):
    monkeypatch.setattr("joulelab.attribution.kineto._PIECE", 97)
    events = [kernel("k", 2.0 * index, 1.0, index) for index in range(50)]
    launches = read_trace(write([EVENTS[1], *events]))

    assert len(launches) == 50
    assert np.diff(launches.start_s) == pytest.approx(np.full(49, 2e-6))


def test_a_trace_that_is_cut_off_is_refused(write):
    with pytest.raises(ConfigError, match="cut off"):
        read_trace(write(EVENTS, whole=False))


def test_a_trace_of_the_host_alone_is_refused(write):
    with pytest.raises(ConfigError, match=r"ProfilerActivity\.CUDA"):
        read_trace(write(EVENTS[:5]))


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"events": []}')

    with pytest.raises(ConfigError, match="traceEvents"):
        read_trace(path)


@pytest.mark.parametrize("name", ["absent.json", "absent.json.gz"])
def test_a_file_that_is_not_there_is_refused_with_what_it_must_be(tmp_path, name):
    with pytest.raises(ConfigError, match=f"trace must be a file .*{name}: No such file"):
        read_trace(tmp_path / name)
