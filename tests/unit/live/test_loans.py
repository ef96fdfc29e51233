"""Who holds a GPU, for which study."""

import os
import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from guard_fakes import FakeDriver, serving
from synthetic_results import header, measurement

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.record import Record
from joulelab.guard.protocol import STUDY_NOTE, HeldLease
from joulelab.guard.settings import GuardSettings
from joulelab.live.loans import loan_of, read_loans
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
    assert read_loans(client.socket_path).by_uuid == {}


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
