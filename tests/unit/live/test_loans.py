"""Who holds a GPU, for which study."""

import os
import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from guard_fakes import FakeDriver, serving, until
from synthetic_results import header, measurement

from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import STUDY_NOTE, HeldLease
from joulelab.guard.settings import GuardSettings
from joulelab.live.session import loan_of, read_loans
from joulelab.study.worker import GpuWorker, WorkerSettings
from joulelab.tracking.store import ResultStore

ADDRESS = DeviceAddress(backend="nvml", uuid="GPU-a")


@pytest.fixture
def folder():
    """A folder with a short name: a Unix socket's path holds a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="live"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def client(folder):
    with serving(GuardSettings(socket_path=folder / "g/guard.sock"), FakeDriver()) as client:
        yield client


def append(store, name):
    made = measurement()
    made = replace(made, trial=name, measurement_id=name, device=replace(made.device, uuid="GPU-a"))
    store.append(Record(measurement=made, trace=None))


def test_without_a_guard_the_reason_is_known():
    found = read_loans(Path("/tmp/joulelab-no-such-guard/guard.sock"))

    assert found.by_uuid == {}
    assert "No clock guard answers" in found.unread


def test_a_lease_shows_its_holder_and_its_point(client):
    with client.lease(ADDRESS, "joulelab measure") as lease:
        lease.apply(OperatingPoint(sm_clock_mhz=1095))
        found = read_loans(client.socket_path)

    (loan,) = found.by_uuid.values()
    assert (loan.lease.note, loan.lease.point) == ("joulelab measure", "1095MHz")
    assert (loan.study, loan.last_trial) == (None, None)
    until(lambda: read_loans(client.socket_path).by_uuid == {})


def test_what_could_not_be_restored_is_named(folder):
    driver = FakeDriver()
    with serving(GuardSettings(socket_path=folder / "g/guard.sock"), driver) as client:
        with client.lease(ADDRESS) as lease:
            lease.apply(OperatingPoint(sm_clock_mhz=1095))
            before = read_loans(client.socket_path)
            driver.faults.add("denied")
        until(lambda: read_loans(client.socket_path).unrestored)
        after = read_loans(client.socket_path)

    assert before.unrestored == {}
    assert list(after.unrestored) == ["GPU-a"]
    assert after.by_uuid == {}


def test_a_study_is_known_by_its_folder_and_its_newest_measurement(client, folder):
    with closing(ResultStore(folder / "results", writer="GPU-a@node-1")) as store:
        store.write_study(header())
        with client.lease(ADDRESS, f"{STUDY_NOTE}{folder / 'results'}"):
            before = read_loans(client.socket_path).by_uuid["GPU-a"]
            append(store, "1095MHz-r0")
            append(store, "1410MHz-r0")
            after = read_loans(client.socket_path).by_uuid["GPU-a"]

    assert (before.study, before.last_trial) == (header().name, None)
    assert (after.study, after.last_trial) == (header().name, "1410MHz-r0")


def test_nothing_is_read_from_where_another_users_note_points(folder):
    with closing(ResultStore(folder, writer="GPU-a@node-1")) as store:
        store.write_study(header())
    own = HeldLease(
        address=ADDRESS,
        pid=1,
        uid=os.getuid(),
        note=f"{STUDY_NOTE}{folder}",
        expires_in_s=1.0,
        point="default",
    )

    studies = [loan_of(lease).study for lease in (own, replace(own, uid=own.uid + 1))]

    assert studies == [header().name, None]


def test_a_folder_without_a_study_names_none(client, folder):
    with client.lease(ADDRESS, f"{STUDY_NOTE}{folder / 'gone'}"):
        loan = read_loans(client.socket_path).by_uuid["GPU-a"]

    assert (loan.study, loan.last_trial) == (None, None)


def test_a_study_that_measures_is_seen_with_its_trials(folder):
    """Through what a study's GPU itself writes: its note, its file, its measurements."""
    state = DriverStore(folder / "driver").create("h200_sxm", 0)
    address = DeviceAddress(backend="simulated", uuid=state.uuid, store=str(folder / "driver"))
    socket_path, results = folder / "g.sock", folder / "results"
    with closing(ResultStore(results)) as store:
        store.write_study(header())
    settings = WorkerSettings(results_dir=results, guard_socket=socket_path)
    worker = GpuWorker(address, settings)
    try:
        seen = []
        for clock_mhz in (1095, 1410):
            point = OperatingPoint(sm_clock_mhz=clock_mhz)
            configuration = Configuration.of("idle", {}, point)
            worker.measure(
                Trial(study=header().name, name=point.label, configuration=configuration)
            )
            seen.append(read_loans(socket_path).by_uuid[state.uuid])
        worker.close()
        after = read_loans(socket_path)
    finally:
        worker.close()
        GuardClient(socket_path, start=False).stop()

    assert [loan.study for loan in seen] == [header().name] * 2
    assert [loan.last_trial for loan in seen] == ["1095MHz", "1410MHz"]
    assert {loan.lease.pid for loan in seen} == {os.getpid()}
    assert (after.by_uuid, after.unread) == ({}, None)
