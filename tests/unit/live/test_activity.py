"""What a process that measures tells others of its node, and what of it they believe."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from actor_fixtures import QUICK, trial
from guard_fakes import end_guard

from joulelab.core.codec import to_json
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.guard.settings import GuardSettings
from joulelab.live.activity import ActivityFile, read_activities
from joulelab.live.reading import LiveSession
from joulelab.study.worker import GpuWorker, WorkerSettings

ADDRESS = DeviceAddress(backend="nvml", uuid="GPU-a")
OTHER_PROCESS = """
import sys
from dataclasses import replace
from pathlib import Path
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.live.activity import ActivityFile

address = DeviceAddress(backend="nvml", uuid="GPU-b")
file = ActivityFile(address, Path("/results"), Path(sys.argv[1]))
file.tell(replace(file.activity, study="sweep", trial="1095MHz-r0"))
print("told", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def socket_path(folder):
    yield folder / "g/guard.sock"
    end_guard(folder / "g/guard.sock")


def mine(socket_path, uuids=("GPU-a", "GPU-b")):
    return [each for each in read_activities(socket_path) if each.address.uuid in uuids]


def place(socket_path):
    return GuardSettings(socket_path=socket_path).state_dir / "activity"


@pytest.fixture
def lab(folder, socket_path):
    """A simulated GPU, and a worker on it."""
    state = DriverStore(folder / "driver").create("h200_sxm", 0)
    address = DeviceAddress(backend="simulated", uuid=state.uuid, store=str(folder / "driver"))
    settings = WorkerSettings(
        results_dir=folder / "results", guard_socket=socket_path, procedure=QUICK
    )
    with closing(GpuWorker(address, settings)) as worker:
        yield state, address, worker


def test_what_is_told_is_read_until_it_is_closed(folder, socket_path):
    file = ActivityFile(ADDRESS, folder, socket_path)
    file.tell(replace(file.activity, study="sweep", trial="1095MHz-r0", since_unix_s=12.5))

    (seen,) = mine(socket_path)
    file.close()
    file.close()

    assert (seen.study, seen.trial, seen.since_unix_s) == ("sweep", "1095MHz-r0", 12.5)
    assert (seen.pid, seen.uid, seen.folder) == (os.getpid(), os.getuid(), str(folder))
    assert mine(socket_path) == []


def test_what_a_killed_process_told_goes_with_it(folder, socket_path):
    command = [sys.executable, "-c", OTHER_PROCESS, str(socket_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().strip() == "told"
        before = mine(socket_path)
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        as_zombie = mine(socket_path)
        process.wait()
        after, left = mine(socket_path), list(place(socket_path).iterdir())
    ActivityFile(ADDRESS, folder, socket_path)

    assert [each.trial for each in before] == ["1095MHz-r0"]
    assert (as_zombie, after) == ([], [])
    assert len(left) == 1
    assert list(place(socket_path).iterdir()) == []


@pytest.mark.parametrize(
    "lie",
    [
        {"process_start_unix_s": 1e9},  # another process had that number
        {"pid": 2**22 + 1},
        {"uid": os.getuid() + 1},
    ],
)
def test_what_does_not_fit_its_process_is_not_believed(folder, socket_path, lie):
    file = ActivityFile(ADDRESS, folder, socket_path)
    file.tell(replace(file.activity, study="sweep", **lie))

    assert mine(socket_path) == []


def test_what_is_no_file_of_ours_is_passed_over(folder, socket_path):
    file = ActivityFile(ADDRESS, folder, socket_path)
    file.tell(replace(file.activity, study="sweep"))
    secret = folder / "elsewhere.json"
    secret.write_text(to_json(replace(file.activity, study="elsewhere")))
    (place(socket_path) / "link.json").symlink_to(secret)
    (place(socket_path) / "cut.json").write_text('{"address":')
    (place(socket_path) / "long.json").write_text(to_json(file.activity) + " " * 70000)
    os.mkfifo(place(socket_path) / "pipe.json")

    assert [each.study for each in mine(socket_path)] == ["sweep"]


def test_a_worker_tells_the_trial_while_it_measures_and_its_energy_afterwards(lab, socket_path):
    state, address, worker = lab
    during = []
    measure = worker._open_bench().measure  # what is told meanwhile, seen from within

    def watched(asked):
        during.extend(mine(socket_path, {state.uuid}))
        return measure(asked)

    worker._bench.measure = watched
    report = worker.measure(trial(990))
    (after,) = mine(socket_path, {state.uuid})
    worker.close()

    measured = report.records[0].measurement
    assert [(each.study, each.trial, each.num_measured) for each in during] == [
        ("test", "990MHz-r0", 0)
    ]
    assert (after.trial, after.num_measured, after.last.trial) == (None, 1, "990MHz-r0")
    assert after.last.energy_per_unit_j == measured.energy_per_unit_j
    assert after.last.energy_j == sum(window.energy_j for window in measured.windows)
    assert (after.last.unit, after.last.reason, after.saving) == (measured.unit, None, None)
    assert after.is_on(address)
    assert not after.is_on(replace(address, store="/elsewhere"))
    assert mine(socket_path, {state.uuid}) == []


def test_what_is_saved_is_told_once_the_drivers_clocks_are_known(lab, socket_path):
    state, _, worker = lab

    def measured(mhz):
        asked = Configuration.of("stream", None, OperatingPoint(sm_clock_mhz=mhz))
        found = worker.measure(replace(trial(mhz), configuration=asked))
        (seen,) = mine(socket_path, {state.uuid})
        return found.records[0].measurement, seen.saving

    _, first = measured(1500)
    usual, second = measured(None)
    best, third = measured(1095)

    assert first is None
    assert second.point == "1500MHz"
    assert third.point == "1095MHz"
    assert third.energy_ratio == pytest.approx(best.energy_per_unit_j / usual.energy_per_unit_j)
    assert third.time_ratio == pytest.approx(best.time_per_unit_s / usual.time_per_unit_s)


def test_an_invalid_trial_has_its_reason_and_no_energy(lab, socket_path):
    state, _, worker = lab
    worker.open()
    state.inject(Fault(kind="frozen_counter"))

    measured = worker.measure(trial(990)).records[0].measurement

    (seen,) = mine(socket_path, {state.uuid})
    assert (seen.last.energy_j, seen.last.energy_per_unit_j, seen.saving) == (None, None, None)
    assert seen.last.reason == f"{measured.findings[0].reason}: {measured.findings[0].detail}"


def test_a_live_view_has_what_is_done_on_its_own_gpus(lab, folder, socket_path):
    _, address, worker = lab
    other = folder / "other"
    DriverStore(other).create("h200_sxm", 0)
    worker.measure(trial(990))

    seen = []
    for each in (address, replace(address, store=str(other))):
        with LiveSession({0: each}, guard_socket=socket_path) as session:
            seen.append(session.look().activities)

    assert [list(each) for each in seen] == [[address.uuid], []]


def test_a_place_that_is_missing_fails_no_measurement(folder, lab, caplog, monkeypatch):
    _, _, worker = lab
    monkeypatch.setattr("joulelab.live.activity._FOLDER", "guard.log/activity")
    worker.open()

    first, second = (worker.measure(trial(mhz)).records[0].measurement for mhz in (990, 810))

    assert first.valid
    assert second.valid
    assert [r.message for r in caplog.records if "cannot see" in r.message] != []
