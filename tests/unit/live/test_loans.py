"""Who holds a GPU."""

from pathlib import Path

import pytest
from guard_fakes import FakeDriver, serving, until

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.guard.settings import GuardSettings
from joulelab.live.session import read_loans

ADDRESS = DeviceAddress(backend="nvml", uuid="GPU-a")


@pytest.fixture
def client(folder):
    with serving(GuardSettings(socket_path=folder / "g/guard.sock"), FakeDriver()) as client:
        yield client


def test_without_a_guard_the_reason_is_known():
    found = read_loans(Path("/tmp/joulelab-no-such-guard/guard.sock"))

    assert found.by_uuid == {}
    assert "No clock guard answers" in found.unread


def test_a_lease_shows_its_holder_and_its_point(client):
    with client.lease(ADDRESS, "joulelab measure") as lease:
        lease.apply(OperatingPoint(sm_clock_mhz=1095))
        found = read_loans(client.socket_path)

    (lease,) = found.by_uuid.values()
    assert (lease.note, lease.point) == ("joulelab measure", "1095MHz")
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
