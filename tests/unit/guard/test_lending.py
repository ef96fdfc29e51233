"""The leases of a guard and what it owes, without its event loop."""

import socket
from contextlib import closing
from math import inf

import pytest
from guard_fakes import FakeDriver

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import DeviceError, GuardError
from joulelab.guard import kept_device
from joulelab.guard import lending as lending_module
from joulelab.guard.connection import Connection
from joulelab.guard.journal import Journal
from joulelab.guard.lending import Lending

A = DeviceAddress(backend="nvml", uuid="GPU-a")
POINT = OperatingPoint(sm_clock_mhz=1095)
DEFAULT = OperatingPoint()


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


@pytest.fixture
def lending(driver, journal):
    return Lending(journal, driver.open)


@pytest.fixture
def connections():
    """Two connections of this very process."""
    ends = socket.socketpair()
    with closing(Connection(ends[0])) as one, closing(Connection(ends[1])) as other:
        yield one, other


@pytest.fixture
def connection(connections):
    return connections[0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda lending, connection: lending.apply(connection, POINT),
        Lending.reset,
        Lending.renew,
    ],
    ids=["apply", "reset", "renew"],
)
def test_whatever_a_borrower_asks_for_renews_its_lease(lending, connection, ask):
    """Else a guard that was slow to set a point could take the device back right after it."""
    lending.lend(connection, A, note="", ttl_s=30.0)
    ends_s = lending.due_s

    ask(lending, connection)

    assert lending.due_s > ends_s


def test_the_guard_wakes_for_the_end_of_a_lease_and_for_a_restore_that_is_due(
    lending, connection, driver
):
    assert lending.due_s == inf
    lending.lend(connection, A, note="", ttl_s=30.0)
    lending.apply(connection, POINT)
    ends_s = lending.due_s
    driver.faults.add("lost")

    lending.take_back(connection, "test")

    assert lending.due_s < ends_s - 20


def test_a_restore_that_failed_is_tried_again_when_it_is_due_and_not_before(
    lending, connection, driver, monkeypatch
):
    monkeypatch.setattr(kept_device, "_FIRST_PAUSE_S", 10.0)
    lending.lend(connection, A, note="", ttl_s=30.0)
    lending.apply(connection, POINT)
    driver.faults.add("lost")
    lending.take_back(connection, "test")

    lending.retry()

    assert [pending.attempts for pending in lending.pending] == [1]


def test_a_point_takes_the_place_of_a_debt(lending, connection, driver):
    lending.lend(connection, A, note="", ttl_s=30.0)
    lending.apply(connection, POINT)
    driver.faults.add("denied")
    with pytest.raises(DeviceError, match="keeps trying"):
        lending.reset(connection)
    driver.faults.clear()

    lending.apply(connection, POINT)

    assert lending.pending == ()


def test_a_line_that_is_torn_hides_no_restore_from_the_guard_after_the_next(
    lending, journal, driver
):
    driver.points["GPU-a"] = POINT
    journal.write("set", A, detail="", prior=DEFAULT, requested=POINT)
    with journal.path_of(A).open("ab") as file:
        file.write(b'{"event":"resto')

    lending.recover()

    assert driver.point() == DEFAULT
    assert journal.owed() == ()


def test_devices_of_one_name_in_two_stores_are_two_devices(lending, connections):
    for connection, store in zip(connections, ("/one", "/other"), strict=True):
        address = DeviceAddress(backend="simulated", uuid="GPU-a", store=store)
        lending.lend(connection, address, note="", ttl_s=30.0)

    assert [lease.address.store for lease in lending.leases] == ["/one", "/other"]


def test_what_is_owed_counts_among_the_devices_that_are_out(
    lending, connections, driver, monkeypatch
):
    """Else a guard would hold more devices than it may, all of them in need of a restore."""
    monkeypatch.setattr(lending_module, "MOST_DEVICES", 1)
    one, other = connections
    lending.lend(one, A, note="", ttl_s=30.0)
    lending.apply(one, POINT)
    driver.faults.add("denied")
    lending.take_back(one, "test")

    with pytest.raises(GuardError, match="lends 1 devices at most"):
        lending.lend(other, DeviceAddress(backend="nvml", uuid="GPU-b"), note="", ttl_s=30.0)


@pytest.mark.parametrize(("note", "told"), [("a sweep", "(a sweep)"), ("", "(no note)")])
def test_who_has_a_device_says_for_what(lending, connections, note, told):
    one, other = connections
    lending.lend(one, A, note=note, ttl_s=30.0)

    with pytest.raises(GuardError, match="GPU-a is leased to pid") as refused:
        lending.lend(other, A, note="", ttl_s=30.0)

    assert told in str(refused.value)
