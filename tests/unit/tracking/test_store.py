import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from full_disk import full_beyond
from synthetic_results import header, measurement, record

from joulelab.core.device import Activity, DeviceState, Look
from joulelab.core.trace import Course, SlowLook
from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.store import ResultStore, study_folders
from joulelab.tracking.study import Answer, flat_settings
from joulelab.tracking.traces import read_series

ROOT = Path(__file__).parents[3]


def lines_of(store, writer="driver"):
    return store.folder / "measurements" / f"{writer}.jsonl"


def test_what_was_appended_reads_back_with_its_trace(tmp_path):
    store = ResultStore(tmp_path)
    written = record(clock_mhz=1500)

    store.append(written)

    assert store.read() == [written.measurement]
    trace = store.read_trace(written.measurement.measurement_id)
    assert np.array_equal(trace.t_s, written.trace.t_s)
    assert np.array_equal(trace.power_w, written.trace.power_w)


def test_a_measurement_is_on_disk_when_append_returns_and_its_trace_before_it(tmp_path, synced):
    store = ResultStore(tmp_path)
    written = record()

    store.append(written)

    path = lines_of(store)
    assert synced[-1] == (path, path.stat().st_size)
    trace = store.trace_path(written.measurement.measurement_id)
    assert (trace.parent, [trace.name]) in synced[:-1]


def test_writers_are_merged_in_the_order_of_time(tmp_path):
    first, second = ResultStore(tmp_path, "gpu-0"), ResultStore(tmp_path, "gpu-1")
    for minute, store in enumerate([second, first, second]):
        store.append(record(minute=minute))

    minutes = [m.windows[0].start_s / 60 for m in ResultStore(tmp_path).read()]

    assert minutes == [0, 1, 2]


def test_the_same_measurement_from_two_writers_counts_once(tmp_path):
    for writer in ("a", "b"):
        ResultStore(tmp_path, writer).append(record())

    assert len(ResultStore(tmp_path).read()) == 1


def test_of_two_results_under_one_id_neither_counts_since_nobody_knows_which_is_true(
    tmp_path, caplog
):
    store = ResultStore(tmp_path)
    store.append(record())
    store.append(record(energy_factor=1.1, measurement_id=record().measurement.measurement_id))

    store.append(record(minute=5))

    kept = store.read()

    assert [m.provenance.started_at for m in kept] == [
        record(minute=5).measurement.provenance.started_at
    ]
    assert len(store.broken) == 2
    assert "driver.jsonl:2 has the measurement_id of another one" in caplog.text


def test_a_last_line_cut_short_is_left_out_and_said(tmp_path, caplog):
    store = ResultStore(tmp_path)
    store.append(record(minute=1))
    store.append(record(minute=2))
    path = lines_of(store)
    path.write_bytes(path.read_bytes()[:-20])

    with caplog.at_level(logging.WARNING):
        read = store.read()

    assert read == [record(minute=1).measurement]
    assert f"{path}:2 was cut short" in caplog.text


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record())
    path = lines_of(store)
    path.write_bytes(path.read_bytes()[:-1])

    assert len(store.read()) == 1


@pytest.mark.parametrize("cut", [1, 20, 500])
def test_a_restarted_writer_mends_its_file_and_goes_on(tmp_path, cut):
    store = ResultStore(tmp_path)
    store.append(record(minute=1))
    store.append(record(minute=2))
    store.close()
    path = lines_of(store)
    path.write_bytes(path.read_bytes()[:-cut])

    restarted = ResultStore(tmp_path)
    restarted.append(record(minute=3))

    minutes = [m.windows[0].start_s / 60 for m in restarted.read()]
    assert minutes == ([1, 2, 3] if cut == 1 else [1, 3])


def test_a_broken_line_costs_no_other_and_is_said_once_with_file_and_line(tmp_path, caplog):
    """One broken line made every result of a store unreadable."""
    store = ResultStore(tmp_path)
    for minute in range(3):
        store.append(record(minute=minute))
    path = lines_of(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:100] + b"\n" + lines[2])

    read = [store.read(), store.read()]

    assert [len(measurements) for measurements in read] == [2, 2]
    assert [place.rpartition("/")[2] for place in store.broken] == ["driver.jsonl:2"]
    assert caplog.text.count("driver.jsonl:2 is no measurement") == 1
    assert f"Left out a broken line: {tmp_path}" in caplog.text
    assert "joulelab repair" in caplog.text


def test_a_later_schema_is_refused_even_on_the_last_line(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record())
    path = lines_of(store)
    data = {**json.loads(path.read_bytes()), "schema_version": 99}
    path.write_text(json.dumps(data))

    with pytest.raises(TrackingError, match=r"driver.jsonl:1: schema_version must be 1, got 99"):
        store.read()


def test_a_failed_append_leaves_the_store_as_it_was(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record())
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    (tmp_path / "traces").write_text("in the way")

    with pytest.raises(TrackingError, match="Cannot write"):
        store.append(record(minute=5))

    assert len(store.read()) == 1


def test_a_write_cut_off_by_the_file_system_is_taken_back(tmp_path):
    """A full disk once left half a line, and the next line was appended to it."""
    store = ResultStore(tmp_path)
    store.append(record())
    before = lines_of(store).read_bytes()

    with full_beyond(len(before) + 700), pytest.raises(TrackingError, match="Cannot append"):
        store.append(replace(record(minute=1), trace=None))

    assert lines_of(store).read_bytes() == before


def test_nothing_that_was_acknowledged_is_lost_to_sigkill(tmp_path):
    code = f"""
import sys
sys.path[:0] = [{str(ROOT / "platform")!r}, {str(ROOT / "tests")!r}]
from pathlib import Path
from synthetic_results import record
from joulelab.tracking.store import ResultStore
store = ResultStore(Path({str(tmp_path)!r}))
for minute in range(10**6):
    store.append(record(minute=minute))
    print(minute, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    acknowledged = [int(next(child.stdout)) for _ in range(20)][-1]
    os.kill(child.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
    child.wait()
    child.stdout.close()

    store = ResultStore(tmp_path)
    store.append(record(minute=-1))

    read = store.read()
    assert len(read) in (acknowledged + 2, acknowledged + 3)
    assert all(store.trace_path(m.measurement_id).exists() for m in read)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 152])
def test_names_that_could_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="writer must be"):
        ResultStore(tmp_path, name)
    with pytest.raises(ConfigError, match="measurement_id must be"):
        ResultStore(tmp_path).append(record(measurement_id=name))

    assert not list(tmp_path.iterdir())


def test_a_measurement_without_a_trace_says_so_when_asked(tmp_path):
    store = ResultStore(tmp_path)

    with pytest.raises(TrackingError, match="has no power samples"):
        store.read_trace("m-1")


def test_a_damaged_trace_is_refused(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record(measurement_id="m-1"))
    store.trace_path("m-1").write_bytes(b"PAR1 and then nothing")

    with pytest.raises(TrackingError, match="is no power trace"):
        store.read_trace("m-1")


def course():
    """Three looks between two samples of power each, the second a whole one."""
    states = [
        DeviceState(sm_clock_mhz=clock, mem_clock_mhz=None, temperature_c=40.0, gpu_utilization=1.0)
        for clock in (1500, 1485, 1500)
    ]
    looks = tuple(Look(at_s=0.21 + 0.2 * i, state=state) for i, state in enumerate(states))
    activity = Activity(tensor_active=0.5)
    slow = SlowLook(at_s=0.41, pids=frozenset({1}), memory_power_w=60.0, activity=activity)
    return Course(looks=looks, slow_looks=(slow,))


def test_a_trace_holds_clocks_and_activities_each_at_its_own_times(tmp_path):
    store, written = ResultStore(tmp_path), replace(record(measurement_id="m-1"), course=course())

    store.append(written)

    series = read_series(store.trace_path("m-1"))
    assert series["sm_clock_mhz"].t_s.tolist() == pytest.approx([0.21, 0.41, 0.61])
    assert series["sm_clock_mhz"].values.tolist() == [1500, 1485, 1500]
    assert series["gpu_utilization"].values.tolist() == [1, 1, 1]
    assert series["tensor_active"].t_s.tolist() == series["memory_power_w"].t_s.tolist() == [0.41]
    assert series["tensor_active"].values.tolist() == [0.5]
    assert not {"mem_clock_mhz", "sm_active"} & set(series)  # what nobody read
    trace = store.read_trace("m-1")
    assert np.array_equal(trace.t_s, written.trace.t_s)
    assert np.array_equal(trace.power_w, written.trace.power_w)


def test_a_trace_of_power_alone_as_earlier_versions_wrote_it_still_reads(tmp_path):
    path = tmp_path / "m-1.parquet"
    pq.write_table(pa.table({"t_s": [0.0, 0.02], "power_w": [390.0, 400.0]}), path)

    series = read_series(path)

    assert list(series) == ["power_w"]
    assert series["power_w"].values.tolist() == [390, 400]


def test_what_was_delivered_is_remembered_for_each_target(tmp_path):
    store = ResultStore(tmp_path)
    for minute in range(3):
        store.append(record(minute=minute))
    ids = [m.measurement_id for m in store.read()]

    store.mark_delivered(ids[:2], target="sqlite:////a.db")
    ResultStore(tmp_path, "sync").mark_delivered(ids[2:], target="sqlite:////a.db")

    assert store.undelivered(target="sqlite:////a.db") == []
    assert len(store.undelivered(target="http://other")) == 3


def test_the_study_header_reads_back(tmp_path):
    store = ResultStore(tmp_path)
    assert store.read_study() is None

    store.write_study(header())

    assert store.read_study() == header()


def test_a_folder_holds_one_sweep(tmp_path):
    store = ResultStore(tmp_path)
    store.write_study(header())
    store.write_study(header(command=("resumed",)))

    with pytest.raises(ConfigError, match="already holds study 'dvfs/Invented GPU/llama'"):
        store.write_study(header(sweep_id="sweep-2"))

    assert store.read_study().command == ("resumed",)


def test_a_damaged_header_names_its_file(tmp_path):
    (tmp_path / "study.json").write_text("{")

    with pytest.raises(TrackingError, match=r"study.json is no StudyHeader"):
        ResultStore(tmp_path).read_study()


def test_the_answer_reads_back(tmp_path):
    store = ResultStore(tmp_path)
    assert store.read_answer() is None
    answer = Answer(note="1500 MHz", summary=(("saving", 0.2),), files=("report.html",))

    store.write_answer(answer)

    assert store.read_answer() == answer


@pytest.mark.parametrize("file", ["/etc/passwd", "../secret", "a/../../b"])
def test_an_answer_holds_no_file_from_elsewhere(file):
    with pytest.raises(ConfigError, match="files must lie in the results folder"):
        Answer(note="", files=(file,))


def test_settings_are_listed_flat_with_dotted_names():
    settings = measurement(clock_mhz=1500).configuration

    listed = dict(flat_settings(settings))

    assert listed["point.sm_clock_mhz"] == 1500
    assert listed["point.power_limit_w"] is None
    assert listed["workload"] == "llama"


def test_results_folders_are_found_below_a_root(tmp_path):
    for name in ("b", "a"):
        ResultStore(tmp_path / name).append(record())

    assert study_folders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert study_folders(tmp_path / "a") == [tmp_path / "a"]


def test_a_root_without_results_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="it does not exist"):
        study_folders(tmp_path / "nowhere")


def test_a_file_in_the_place_of_a_results_folder_is_called_a_file(tmp_path):
    """It was said not to exist."""
    (tmp_path / "sweep.csv").touch()

    with pytest.raises(ConfigError, match="it is a file"):
        study_folders(tmp_path / "sweep.csv")


def test_appending_needs_no_pandas(tmp_path):
    code = f"""
import sys
sys.path[:0] = [{str(ROOT / "platform")!r}, {str(ROOT / "tests")!r}]
from pathlib import Path
from synthetic_results import record
from joulelab.tracking.store import ResultStore
ResultStore(Path({str(tmp_path)!r})).append(record())
print("pandas" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
