"""What is there, and whether it is fit to measure on."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
import tyro
from fake_gpu import FOREIGN_PID, FakeGpu
from fake_tools import FakeSmi

from joulelab.cli import options
from joulelab.cli.checks import check_device, who_guards
from joulelab.cli.devices import Devices, clocks_in_words, duration_in_words
from joulelab.cli.doctor import Doctor
from joulelab.core.device import DeviceAddress, DeviceIdentity, EventReason
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.errors import DeviceNotFoundError, GuardError, UnknownNameError


@pytest.fixture
def store(tmp_path):
    return DriverStore(tmp_path / "driver")


def told(capsys):
    return json.loads(capsys.readouterr().out)


def checks_of(store, uuid="SIM-h200_sxm-0"):
    address = DeviceAddress(backend="simulated", uuid=uuid, store=str(store.root))
    device = SimulatedDevice.open(address)
    return {check.what: check for check in check_device(device, address)}


@pytest.mark.parametrize(("asked", "status"), [(None, "ok"), ("450", "fail")])
def test_a_job_whose_clocks_slurm_sets_is_not_fit_to_measure(store, monkeypatch, asked, status):
    monkeypatch.delenv("SLURM_GPU_FREQ", raising=False)
    if asked:
        monkeypatch.setenv("SLURM_GPU_FREQ", asked)

    found = checks_of(store)["SLURM"]

    assert found.status == status
    assert (f"--gpu-freq={asked}" in found.found) is bool(asked)


def test_an_empty_store_shows_one_simulated_h200(store, capsys):
    code = Devices(device="simulated", store=str(store.root), json=True).run()

    (device,) = told(capsys)
    assert code == 0
    assert device["identity"]["name"] == "NVIDIA H200"
    assert len(device["capabilities"]["sm_clocks_mhz"]) == 110
    assert device["capabilities"]["power_limits_w"] == [200, 700]


def test_the_tick_is_measured_unless_it_is_to_be_quick(store, capsys):
    options = {"device": "simulated", "store": str(store.root), "json": True}

    Devices(**options).run()
    measured = told(capsys)[0]
    Devices(**options, quick=True).run()
    quick = told(capsys)[0]

    assert measured["tick"]["period_s"] == pytest.approx(0.1, rel=0.01)
    assert measured["samples"]["period_s"] == pytest.approx(0.02, rel=0.01)
    assert quick["tick"] is None
    assert quick["samples"] is None


def test_a_sensor_that_does_not_work_is_shown_as_a_problem(store, capsys):
    store.create("h200_sxm", 0).inject(Fault(kind="frozen_counter"))

    code = Devices(device="simulated", store=str(store.root), json=True).run()

    (device,) = told(capsys)
    assert code == 0
    assert device["tick"] is None
    assert "stood still" in device["problems"][0]


def test_tables_name_every_device_with_its_clocks(store, capsys):
    store.create("h200_sxm", 0)
    store.create("v100_sxm2", 0)

    Devices(device="simulated", store=str(store.root), quick=True).run()

    said = capsys.readouterr().out
    assert "SIM-h200_sxm-0" in said
    assert "SIM-v100_sxm2-0" in said
    assert "110 from 345 to 1980 MHz" in said


def test_a_gpu_at_rest_is_not_called_throttled(store, capsys):
    """It was "throttled by IDLE", beside "not throttled" of `joulelab top`."""
    Devices(device="simulated", store=str(store.root), quick=True).run()

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "throttled by" in line]
    assert "nothing" in line


def test_only_the_devices_that_were_named_are_shown(store, capsys):
    for index in range(3):
        store.create("h200_sxm", index)

    Devices(
        device="simulated", store=str(store.root), uuid=("SIM-h200_sxm-2",), quick=True, json=True
    ).run()

    assert [device["identity"]["uuid"] for device in told(capsys)] == ["SIM-h200_sxm-2"]


def test_an_unknown_uuid_is_refused_and_those_there_are_named(store):
    store.create("h200_sxm", 0)

    with pytest.raises(DeviceNotFoundError, match="got GPU-x; there are: SIM-h200_sxm-0"):
        Devices(device="simulated", store=str(store.root), uuid=("GPU-x",)).run()


def test_a_misspelt_backend_is_answered_with_the_closest_one():
    with pytest.raises(UnknownNameError, match="Did you mean 'simulated'"):
        Doctor(device="simulatd").run()


@pytest.mark.parametrize("command", [Devices, Doctor])
def test_a_command_is_built_from_its_fields(command):
    parsed = tyro.cli(command, args=["--device", "simulated", "--json", "--uuid", "a", "b"])

    assert (parsed.device, parsed.json, parsed.uuid) == ("simulated", True, ("a", "b"))


def test_a_healthy_idle_gpu_passes_every_check(store, capsys):
    code = Doctor(device="simulated", store=str(store.root), json=True).run()

    checks = told(capsys)["SIM-h200_sxm-0"]
    assert code == 0
    assert {check["status"] for check in checks} == {"ok"}
    assert {
        "foreign processes",
        "MIG",
        "ECC",
        "persistence mode",
        "energy counter",
        "call latency",
        "observer effect",
        "permissions",
    } <= {check["what"] for check in checks}


def test_a_machine_without_a_gpu_is_checked_all_the_same(store, capsys, monkeypatch, tmp_path):
    """The doctor stopped at "no GPU" and said nothing of the rest."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    code = Doctor(device="smi", json=True).run()

    checks = {check["what"]: check for check in told(capsys)["machine"]}
    assert code == 1
    assert checks["GPU"]["status"] == "fail"
    assert "nvidia-smi is not installed" in checks["GPU"]["found"]
    assert str(tmp_path / "joulelab-results") in checks["results"]["found"]
    assert {checks[what]["status"] for what in ("results", "libraries")} == {"ok"}
    assert "others slowed it for" in checks["host's core"]["found"]


def test_a_device_that_was_asked_for_and_is_not_there_is_a_wrong_request(store):
    with pytest.raises(DeviceNotFoundError, match="got GPU-x"):
        Doctor(device="simulated", store=str(store.root), uuid=("GPU-x",)).run()


def test_results_that_cannot_be_written_fail_the_preflight(store, capsys, monkeypatch, tmp_path):
    (tmp_path / "joulelab-results").write_text("a file")
    monkeypatch.setenv("HOME", str(tmp_path))

    code = Doctor(device="simulated", store=str(store.root), json=True).run()

    checks = {check["what"]: check for check in told(capsys)["machine"]}
    assert code == 1
    assert checks["results"]["status"] == "fail"


def test_doctor_leaves_the_settings_of_the_driver_alone(store):
    state = store.create("h200_sxm", 0)
    state.lock_sm(1095, 1095)

    Doctor(device="simulated", store=str(store.root)).run()

    assert state.settings().locked_sm_mhz == (1095, 1095)


def test_somebody_elses_process_fails_the_preflight(store, capsys):
    store.create("h200_sxm", 0).inject(Fault(kind="foreign_process", pid=FOREIGN_PID))

    code = Doctor(device="simulated", store=str(store.root)).run()

    assert code == 1
    assert str(FOREIGN_PID) in capsys.readouterr().out


def test_clocks_that_somebody_left_locked_fail_the_preflight(store):
    store.create("h200_sxm", 0).lock_sm(1095, 1095)

    check = checks_of(store)["settings"]

    assert check.status == "fail"
    assert "locked at 1095 MHz" in check.found


def test_missing_permission_is_a_warning_that_says_how_to_get_it(store):
    store.create("h200_sxm", 0, restricted=True)

    check = checks_of(store)["permissions"]

    assert check.status == "warn"
    assert "SM clock no" in check.found
    assert "joulelab guard" in check.advice
    assert "--observe-only" in check.advice


def test_the_socket_of_a_killed_guard_is_no_guard_that_does_not_answer(tmp_path):
    path = tmp_path / "guard.sock"
    with closing(socket.socket(socket.AF_UNIX)) as killed:
        killed.bind(str(path))

    assert path.exists()
    assert who_guards(path)[1].startswith(f"none listens at {path}; one starts")


def test_a_guard_that_listens_and_says_nothing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("joulelab.cli.checks.LONGEST_SILENCE_S", 0.2)
    path = tmp_path / "guard.sock"
    with closing(socket.socket(socket.AF_UNIX)) as mute:
        mute.bind(str(path))
        mute.listen()

        with pytest.raises(GuardError, match="No clock guard answers"):
            who_guards(path)


def test_only_root_may_start_the_guard_of_a_node(tmp_path, monkeypatch):
    path = tmp_path / "node" / "guard.sock"
    monkeypatch.setattr("joulelab.guard.start.SYSTEM_SOCKET", path)

    with pytest.raises(GuardError, match="No clock guard answers"):
        who_guards(path)  # its folder is not there, so not writable


def test_a_frozen_counter_fails_its_line_and_the_rest_goes_on(store):
    store.create("h200_sxm", 0).inject(Fault(kind="frozen_counter"))

    checks = checks_of(store)

    assert checks["energy counter"].status == "fail"
    assert "stood still" in checks["energy counter"].found
    assert checks["permissions"].status == "ok"


def test_a_gpu_held_down_by_heat_at_rest_fails():
    gpu = FakeGpu()
    gpu.state = replace(gpu.state, event_reasons=EventReason.HW_THERMAL | EventReason.IDLE)

    (address,) = gpu.discover()

    check = next(check for check in check_device(gpu, address) if check.what == "heat")

    assert check.status == "fail"
    assert "by HW_THERMAL" in check.found


@pytest.mark.parametrize(
    ("identity", "what", "status"),
    [
        ({"mig_enabled": True}, "MIG", "fail"),
        ({"mig_enabled": False}, "MIG", "ok"),
        ({"persistence_mode": False}, "persistence mode", "warn"),
        ({"ecc_enabled": False}, "ECC", "ok"),
    ],
)
def test_driver_settings_that_move_numbers_are_judged(store, monkeypatch, identity, what, status):
    device = SimulatedDevice(store.create("h200_sxm", 0))
    found = DeviceIdentity(
        uuid="GPU-1", name="NVIDIA H200", backend="nvml", driver_version="580", **identity
    )
    monkeypatch.setattr(device, "identity", lambda: found)
    address = DeviceAddress(backend="nvml", uuid=found.uuid)

    checks = {check.what: check for check in check_device(device, address)}

    assert checks[what].status == status
    assert bool(checks[what].advice) == (status != "ok")


def look_through_smi(path):
    import contextlib
    import io
    import os

    out, err = io.StringIO(), io.StringIO()
    before, os.environ["PATH"] = os.environ["PATH"], path
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            Devices(json=True).run()
    finally:
        os.environ["PATH"] = before
    return json.loads(out.getvalue()), err.getvalue()


def test_a_fallback_is_said_aloud_beside_the_answer(driver, tmp_path):
    FakeSmi(tmp_path)

    (device,), aloud = driver.call(look_through_smi, str(tmp_path))

    assert device["identity"]["backend"] == "smi"
    assert "Falling back to smi" in aloud


def look_through_nvml():
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        Devices(quick=True, json=True).run()
    return json.loads(out.getvalue())


def test_real_gpus_are_found_by_themselves(driver):
    driver.add("GPU-aa-0")
    driver.add("GPU-aa-1")

    devices = driver.call(look_through_nvml)

    assert [device["identity"]["uuid"] for device in devices] == ["GPU-aa-0", "GPU-aa-1"]
    assert devices[0]["state"]["event_reasons"] == ["IDLE"]
    assert driver.setter_calls == []


def test_clocks_and_durations_are_short_in_words():
    assert clocks_in_words(tuple(range(1980, 344, -15))) == "110 from 345 to 1980 MHz"
    assert clocks_in_words((3201, 2201)) == "3201 MHz, 2201 MHz"
    assert clocks_in_words(()) == "none can be set"
    assert duration_in_words(0.1) == "100.0 ms"
    assert duration_in_words(3e-6) == "3 us"


def test_a_cluster_that_is_not_named_is_not_looked_at():
    pytest.importorskip("ray")
    unnamed = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "joulelab.cli.main", "doctor", "--cluster"]

    done = subprocess.run(command, env=unnamed, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "RAY_ADDRESS names, which is not set" in done.stderr


FIRST, SECOND = (DeviceAddress(backend="nvml", uuid=f"GPU-{name}") for name in "ab")


@pytest.mark.parametrize(
    ("visible", "uuid", "chosen"),
    [
        (None, None, FIRST),
        ("1", None, SECOND),
        ("GPU-b", None, SECOND),
        ("1", "GPU-a", FIRST),  # it is asked for
        ("", None, FIRST),  # of a server, which sees more
    ],
)
def test_the_first_gpu_that_is_visible_is_taken(monkeypatch, visible, uuid, chosen):
    """PyTorch refused the machine's first one, where another was visible."""
    monkeypatch.setattr(options, "_discover", lambda *_: [FIRST, SECOND])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert options.choose_address("nvml", uuid=uuid) == chosen
