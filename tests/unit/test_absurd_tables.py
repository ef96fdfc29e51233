"""Powers, times and clocks that no GPU has, in every table that a user can hand in."""

import pytest

from joulelab.devices.replay import read_recording
from joulelab.errors import ConfigError
from joulelab.estimator.calibration.anchors import read_anchors
from joulelab.estimator.validation import read_measured
from joulelab.power_models.readers import read_csv
from joulelab.power_models.traces.readers import read_recordings

RUNS = ("application,gpu,sm_clock_mhz,power_w,time_s", "gemm,NVIDIA H200,{clock},{power},{time}")
SWEEP = ("gpu,app,sm_clock_mhz,power_w,time_s", "H200,gemm,{clock},{power},{time}")
MEASURED = (
    "model,device,precision,batch,time_s,energy_j", "resnet50,h200_sxm,fp16,1,{time},{power}",
)  # fmt: skip
ANCHORS = (
    "name,kind,dtype,mode,flop,moved_b,sm_clock_mhz,power_w,time_s,m",
    "a,norm,float16,graph,1,1,{clock},{power},{time},0",
)
SAMPLES = ("t_s,fp_active,power_w", "0,0.5,300\n{time},0.5,{power}")
READERS = {
    "runs": (read_csv, RUNS),
    "sweep": (lambda path: read_recording(str(path)), SWEEP),
    "measured": (read_measured, MEASURED),
    "anchors": (read_anchors, ANCHORS),
    "samples": (read_recordings, SAMPLES),
}
SENSIBLE = {"clock": "1980", "power": "600", "time": "0.5"}


def read(name, tmp_path, **cells):
    reader, (head, row) = READERS[name]
    path = tmp_path / "table.csv"
    path.write_text(f"{head}\n{row.format(**SENSIBLE | cells)}\n")
    return reader(path)


@pytest.mark.parametrize("name", READERS)
def test_a_sensible_row_is_read(name, tmp_path):
    assert read(name, tmp_path)


@pytest.mark.parametrize("value", ["1e300", "inf", "nan", "-5"])
@pytest.mark.parametrize("what", ["power", "time", "clock"])
@pytest.mark.parametrize("name", READERS)
def test_a_row_that_no_gpu_can_have_measured_is_refused_by_its_line(name, what, value, tmp_path):
    """A table of 1e300 W was read, and a model fitted to it."""
    if f"{{{what}}}" not in READERS[name][1][1]:
        return

    with pytest.raises(ConfigError, match=r"row \d|[Ll]ine \d|csv:\d|must be"):
        read(name, tmp_path, **{what: value})


@pytest.mark.parametrize(
    ("end", "step_s"), [("1e10", 0.1), ("60", 1e-12), ("60", float("nan")), ("60", float("inf"))]
)
def test_a_recording_of_more_steps_than_memory_holds_is_refused(end, step_s, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"t_s,fp_active,power_w\n0,0.5,300\n{end},0.5,300\n")

    with pytest.raises(ConfigError, match="step_s"):
        read_recordings(path, step_s=step_s)


@pytest.mark.parametrize(
    "line", ["[]", "3", '{"schema_version": 1}', '{"schema_version": 1, "findings": 5}', "\xff"]
)
def test_a_folder_to_replay_with_a_line_of_another_shape_is_refused(line, tmp_path):
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "a.jsonl").write_text(f"{line}\n")

    with pytest.raises(ConfigError):
        read_recording(str(tmp_path))
