import json

import pytest
from fake_gpu import FOREIGN_PID

from joulelab.cli.main import main
from joulelab.devices.simulated import DriverStore, Fault, fleet
from joulelab.tracking.store import measurement_from_json


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "driver")


@pytest.fixture
def measure(store, capsys, guard_socket):
    """Runs ``joulelab measure`` on a simulated GPU; returns exit code, output and progress."""

    def run(*words):
        words = (*words, "--device", "simulated", "--store", store, "--procedure.idle-s", "1")
        words = (*words, "--guard-socket", str(guard_socket))
        code = main(["measure", *words])
        return code, *capsys.readouterr()

    return run


def test_a_measurement_is_told_with_its_error_bar_and_the_sensor_class(measure):
    code, out, _ = measure("gemm", "--gpu", "a100_sxm")

    assert code == 0
    assert "on simulated NVIDIA A100" in out
    assert "±" in out
    assert out.count("±5% sensor class") == 2
    assert " J/TFLOP" in out
    assert "Js/TFLOP^2" in out


def test_a_recording_has_no_error_bar(tmp_path, capsys):
    """Three windows of one row agreed within 0.01 %."""
    table = tmp_path / "sweep.csv"
    table.write_text("gpu,app,sm_clock_mhz,power_w,time_s\nA100,lbm,1410,300,12.0\n")

    code = main(
        ["measure", "recorded", "--app", "lbm", "--device", "replay", "--store", str(table)]
    )

    out, _ = capsys.readouterr()
    assert code == 0
    assert "replayed A100" in out
    assert "3.6 kJ/run (±5% sensor class, counter)" in out
    assert "one observation" in out


def test_progress_goes_to_the_standard_error(measure):
    _, out, err = measure("gemm", "--n", "4096")

    assert "warming up" in err
    assert "warming up" not in out


def test_json_holds_the_whole_measurement(measure):
    _, out, _ = measure("gemm", "--precision", "fp32", "--json")

    (told,) = json.loads(out)["measurements"]
    valid, metrics = told.pop("valid"), told.pop("metrics")
    measurement = measurement_from_json(json.dumps(told))
    assert valid
    assert dict(measurement.configuration.knobs)["precision"] == "fp32"
    assert metrics["energy_per_unit_j"] == measurement.energy_per_unit_j


def test_an_invalid_measurement_is_told_with_its_reason_and_exits_with_1(measure, store):
    (address,) = fleet("h200_sxm", 1, store)
    DriverStore(store).state(address.uuid).inject(Fault(kind="foreign_process", pid=FOREIGN_PID))

    code, out, _ = measure("gemm")

    assert code == 1
    assert "INVALID" in out
    assert "foreign_process" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gem",), "Did you mean 'gemm'?"),
        (("gemm", "--gpu", "h20_sxm"), "h200_sxm"),
        (("gemm", "--observe-only", "--sm-clock-mhz", "1005"), "--observe-only"),
        (("gemm", "--uuid", "SIM-none"), "SIM-none"),
    ],
)
def test_a_bad_request_is_one_clear_line_and_exits_with_2(measure, words, said):
    code, out, err = measure(*words)

    assert code == 2
    assert out == ""
    assert said in err.strip().splitlines()[-1]


def test_a_wrong_option_names_the_closest(measure, capsys):
    with pytest.raises(SystemExit) as stop:
        measure("gemm", "--precison", "bf16")

    assert stop.value.code == 2
    assert "--precision" in capsys.readouterr().err


def test_a_wrong_value_of_a_knob_says_what_is_allowed(measure, capsys):
    with pytest.raises(SystemExit) as stop:
        measure("gemm", "--n", "-4")

    assert stop.value.code == 2
    assert "at least 1" in capsys.readouterr().err


OWN = """
from joulelab.core.cost import KernelCost, PhaseCost

def step(batch: int = 8):
    raise AssertionError("a simulated GPU plays the cost")

def cost(batch):
    kernel = KernelCost(name="gemm", pipe="tensor_bf16", flop=2e11 * batch, dram_b=1e8)
    return PhaseCost(phase="run", work=1, kernels=(kernel,))

step.unit, step.cost = "row", cost

def bare():
    pass
"""


@pytest.fixture
def own_program(tmp_path):
    path = tmp_path / "own_measured.py"
    path.write_text(OWN)
    return path


def test_a_program_of_ones_own_is_measured_and_its_arguments_are_options(measure, own_program):
    code, out, _ = measure(f"{own_program}:step", "--batch", "4", "--sm-clock-mhz", "990")

    assert code == 0
    assert "own_measured.py:step on simulated NVIDIA H200" in out
    assert "J/row" in out


def test_a_simulated_gpu_is_refused_a_program_that_has_no_cost_in_one_line(measure, own_program):
    code, _, err = measure(f"{own_program}:bare")

    assert code == 2
    assert "bare has no cost, which simulated GPUs" in err.splitlines()[-1]


def test_a_file_without_what_to_call_in_it_is_answered_with_how_to_name_it(measure):
    code, _, err = measure("train.py")

    assert code == 2
    assert "such as train.py:step" in err
