"""The guard and its clients over a real socket, the guard in a thread, the driver in memory."""

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from guard_fakes import FakeDriver, serving
from waiting import until

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.control import applied
from joulelab.errors import ConfigError, DeviceNotFoundError, DevicePermissionError, GuardError
from joulelab.guard import server
from joulelab.guard.client import GuardClient
from joulelab.guard.connection import Link
from joulelab.guard.journal import Journal
from joulelab.guard.settings import GuardSettings

A = DeviceAddress(backend="nvml", uuid="GPU-a")
B = DeviceAddress(backend="nvml", uuid="GPU-b")
POINT = OperatingPoint(sm_clock_mhz=1095)
DEFAULT = OperatingPoint()


def test_a_lease_sets_reads_back_and_restores(client, driver):
    with client.lease(A, "sweep") as lease:
        receipt = lease.apply(POINT)
        assert driver.point() == POINT
        assert (receipt.sm_clock_mhz, receipt.set_by) == (1095, "guard")

        lease.reset()

        assert driver.point() == DEFAULT


def test_a_device_is_back_when_close_returns(client, driver):
    lease = client.lease(A)
    lease.apply(POINT)

    lease.close()

    assert driver.point() == DEFAULT
    with pytest.raises(GuardError, match="given back"):
        lease.require_held()


def test_a_device_of_a_package_that_the_guard_has_not_is_refused_with_what_to_do(client, settings):
    """The guard's list of devices came back, as if the command had not known the name."""
    address = {"backend": "my-gpu", "uuid": "MY-1"}

    with Link(settings.socket_path) as link, pytest.raises(GuardError, match="guard --stop"):
        link.request("lease", address=address, ttl_s=30.0, note="")


def test_a_default_point_sets_nothing_where_the_driver_says_that_nothing_is_set(client, driver):
    with client.lease(A) as lease, applied(lease, DEFAULT) as receipt:
        assert receipt.locks_known

    assert driver.calls == []


def test_a_default_point_undoes_a_lock_that_somebody_left_and_gives_it_back(client, driver):
    """A sweep's baseline ran at a stale lock and passed for the driver's own clock."""
    left = OperatingPoint(sm_clock_mhz=600)
    driver.points["GPU-a"] = left

    with client.lease(A) as lease, applied(lease, DEFAULT) as receipt:
        assert driver.point() == DEFAULT
        assert receipt.prior == left

    assert driver.point() == left


def test_two_devices_are_lent_to_one_process(client, driver):
    with client.lease(A) as one, client.lease(B) as other:
        one.apply(POINT)
        other.apply(OperatingPoint(power_limit_w=300.0))

        assert driver.point("GPU-a") == POINT
        assert driver.point("GPU-b") == OperatingPoint(power_limit_w=300.0)


def test_a_second_lease_of_a_device_is_refused_and_names_the_holder(client):
    with (
        client.lease(A, "a sweep of mine"),
        pytest.raises(GuardError, match=f"pid {os.getpid()} .*a sweep of mine"),
    ):
        client.lease(A)


def test_a_device_can_be_leased_again_at_once(client):
    for _ in range(20):
        client.lease(A).close()
        client.lease(A)._link.close()  # as if killed: no farewell


def test_a_dropped_connection_restores(client, driver):
    lease = client.lease(A)
    lease.apply(POINT)

    lease._link.close()

    until(lambda: driver.point() == DEFAULT)


def test_a_lease_that_is_not_renewed_is_taken_back(client, driver):
    lease = client.lease(A, ttl_s=1.0)
    lease._closing.set()  # no more renewals
    lease.apply(POINT)

    until(lambda: driver.point() == DEFAULT)

    with pytest.raises(GuardError, match="not renewed"):
        lease.require_held()
    with pytest.raises(GuardError, match="lost"):
        lease.apply(POINT)
    lease.close()


def test_a_lease_is_renewed_by_itself(client, driver):
    with client.lease(A, ttl_s=3.0) as lease:
        lease.apply(POINT)
        end_s = client.status().leases[0].expires_in_s + time.monotonic()  # at the latest

        until(lambda: time.monotonic() + client.status().leases[0].expires_in_s > end_s)

        lease.require_held()
        assert driver.point() == POINT


def test_a_lease_that_cannot_be_confirmed_counts_as_lost(client):
    lease = client.lease(A, ttl_s=30.0)
    lease._deadline_s = time.monotonic() - 0.001

    with pytest.raises(GuardError, match="not renewed for 30 s"):
        lease.require_held()

    lease.close()


def test_a_lease_lasts_from_when_it_was_renewed_and_not_from_the_answer(settings):
    """Else a guard that answers late would take it back before its borrower gives it up."""

    heard_s = []

    class SlowDriver(FakeDriver):
        def point(self, uuid="GPU-a"):
            heard_s.append(time.monotonic())
            time.sleep(0.1)
            return super().point(uuid)

    with serving(settings, SlowDriver()) as client, client.lease(A, ttl_s=30.0) as lease:
        heard_s.clear()
        lease.apply(POINT)

        assert lease._deadline_s - 30.0 < heard_s[0]


def test_threads_that_share_a_lease_take_turns(client, driver):
    with client.lease(A) as lease, ThreadPoolExecutor(4) as threads:
        points = [OperatingPoint(sm_clock_mhz=clock) for clock in (1095, 1110, 1200, 1410)]

        receipts = list(threads.map(lease.apply, points * 15))

        assert [receipt.requested for receipt in receipts] == points * 15
        lease.require_held()


def test_resetting_a_lost_lease_is_left_to_the_guard(client, driver):
    lease = client.lease(A)
    lease.apply(POINT)
    lease._link.close()
    until(lambda: driver.point() == DEFAULT)

    lease.reset()

    with pytest.raises(GuardError):
        lease.require_held()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_cannot_use_or_end_its_parents_lease(client, driver):
    with client.lease(A) as lease:
        lease.apply(POINT)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                lease.require_held()
            except GuardError:
                lease.close()
                status = 0
            os._exit(status)

        assert os.waitpid(child, 0)[1] == 0
        lease.require_held()
        assert driver.point() == POINT


@pytest.mark.parametrize(
    ("fault", "clock_mhz", "error"),
    [
        (set(), 1100, ConfigError("1095 and 1110")),
        ({"denied"}, 1095, DevicePermissionError("CAP_SYS_ADMIN")),
        ({"broken"}, 1095, GuardError("no such error code")),
    ],
)
def test_errors_arrive_in_their_own_class(client, driver, fault, clock_mhz, error):
    with client.lease(A) as lease:
        driver.faults |= fault

        with pytest.raises(type(error), match=str(error)):
            lease.apply(OperatingPoint(sm_clock_mhz=clock_mhz))

        driver.faults.clear()


def test_an_unknown_device_is_not_lent(client):
    with pytest.raises(DeviceNotFoundError, match="GPU-a, GPU-b"):
        client.lease(DeviceAddress(backend="nvml", uuid="GPU-c"))


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, 61.0, float("nan"), True, "30"])
def test_a_time_to_live_out_of_range_is_refused(client, ttl_s):
    with pytest.raises(ConfigError, match="at most 60"):
        client.lease(A, ttl_s=ttl_s)


def test_status_tells_who_holds_what(client):
    with client.lease(A, "sweep", ttl_s=30.0) as lease:
        lease.apply(POINT)

        (held,) = client.status().leases

    assert (held.address, held.pid, held.uid) == (A, os.getpid(), os.getuid())
    assert (held.note, held.point) == ("sweep", "1095MHz")
    assert 29 < held.expires_in_s <= 30


def test_what_cannot_be_restored_is_reported_retried_and_not_lent(client, driver):
    lease = client.lease(A)
    lease.apply(POINT)
    driver.faults.add("lost")
    lease.close()

    until(lambda: client.status().pending)
    with pytest.raises(GuardError, match="GPU-a is lost"):
        client.lease(A)
    driver.faults.clear()

    until(lambda: not client.status().pending)
    assert driver.point() == DEFAULT


def test_a_failed_reset_is_told_and_retried_while_the_lease_lasts(client, driver):
    with client.lease(A) as lease:
        lease.apply(POINT)
        driver.faults.add("denied")
        with pytest.raises(Exception, match="keeps trying"):
            lease.reset()
        driver.faults.clear()

        until(lambda: driver.point() == DEFAULT)
        lease.apply(POINT)

        time.sleep(0.3)
        assert driver.point() == POINT, "an old debt must not undo a new point"


def test_a_new_guard_restores_what_the_one_before_left(settings, driver):
    settings.make_folders()
    driver.points["GPU-a"] = POINT
    Journal(settings.state_dir).write("set", A, detail="", prior=DEFAULT, requested=POINT)

    with serving(settings, driver) as client:
        assert driver.point() == DEFAULT
        assert client.status().pending == ()


def test_stopping_restores_and_takes_the_socket_away(settings, driver):
    with serving(settings, driver) as client:
        lease = client.lease(A)
        lease.apply(POINT)

        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(settings.socket_path))
            link.sendall(b'{"do":"stop"}\n')
            assert json.loads(link.recv(1000)) == {"ok": None, "protocol": 2}

        until(lambda: not settings.socket_path.exists())
        assert driver.point() == DEFAULT
        with pytest.raises(GuardError, match="lost"):
            lease.require_held()


def test_a_guard_that_owes_a_restore_refuses_to_stop(client, driver):
    lease = client.lease(A)
    lease.apply(POINT)
    driver.faults.add("lost")

    with pytest.raises(GuardError, match="cannot restore GPU-a"):
        client.stop()

    assert client.status().pending


def test_a_guard_ends_by_itself_when_idle_but_not_while_in_use(tmp_path, driver, monkeypatch):
    settings = GuardSettings(socket_path=tmp_path / "guard.sock", idle_exit_s=600.0)
    ahead_s, num_reads = [0.0], [0]

    def now_s():
        num_reads[0] += 1
        return time.monotonic() + ahead_s[0]

    def outlives(waited_s):
        for each_s in (0.0, waited_s):  # let it see first that a client left
            ahead_s[0] += each_s
            seen = num_reads[0]
            until(lambda seen=seen: num_reads[0] > seen + 4 or not settings.socket_path.exists())
        return settings.socket_path.exists()

    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=now_s))
    monkeypatch.setattr(server, "BEAT_S", 0.02)
    with serving(settings, driver) as client:
        with client.lease(A) as lease:
            lease.apply(POINT)
            assert outlives(1000.0), "it is in use"
            driver.faults.add("lost")
        assert outlives(1000.0), "it owes a restore"
        driver.faults.clear()
        until(lambda: driver.point() == DEFAULT)
        assert outlives(500.0)

        assert not outlives(200.0)


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b"[" * 20_000,
        b"9" * 5_000,
        b'{"do":["lease"],"protocol":2}',
        b'{"do":"fly","protocol":2}',
        b'{"do":"lease","protocol":2}',
        b'{"do":"lease","address":{"uuid":"GPU-a"},"ttl_s":1,"protocol":2}',
        b'{"do":"lease","address":{"backend":"x","uuid":7},"ttl_s":1,"protocol":2}',
        b'{"do":"lease","address":{"backend":"nvml","uuid":"a\\u001b[2J"},"ttl_s":1,"protocol":2}',
        b'{"do":"apply","point":{"sm_clock_mhz":1095},"protocol":2}',
        b"\xff\xfe",
    ],
)
def test_nonsense_is_answered_with_an_error_and_harms_nobody(client, settings, line):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(settings.socket_path))

        link.sendall(line + b"\n")

        assert json.loads(link.recv(5000))["error"]["kind"] in ("ConfigError", "GuardError")
    assert client.status().leases == ()


@pytest.mark.parametrize(
    "point",
    [{"sm_clock_mhz": "1095"}, {"sm_clock_mhz": 1095.0}, {"fan": 1}, 7, {"sm_clock_mhz": -1}],
)
def test_a_point_that_is_none_is_refused(client, point):
    with client.lease(A) as lease, pytest.raises(ConfigError):
        lease._request("apply", point=point)


def test_an_endless_request_is_cut_off(client, settings):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(settings.socket_path))

        with pytest.raises(ConnectionError):
            link.sendall(b"x" * 2**22)

    assert client.status().leases == ()


def test_the_socket_is_for_its_owner_alone_and_the_journal_for_all_to_read(client, settings):
    """Whoever only observes must know that somebody's lock is in force."""
    with client.lease(A) as lease:
        lease.apply(POINT)

    (journal,) = settings.state_dir.glob("*.jsonl")
    modes = [
        path.stat().st_mode & 0o777 for path in (settings.socket_path, journal.parent, journal)
    ]
    assert modes == [0o600, 0o755, 0o644]


def test_nobody_listening_is_a_guard_error_that_says_what_to_do(tmp_path):
    with pytest.raises(GuardError, match="joulelab guard"):
        GuardClient(tmp_path / "none.sock", start=False).lease(A)


def test_a_socket_path_that_the_kernel_would_cut_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="at most 100 bytes"):
        GuardSettings(socket_path=tmp_path / ("x" * 100))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("name", ["", "guard.state"], ids=["socket", "state"])
def test_a_folder_that_others_can_write_is_refused(tmp_path, name, mode):
    folder = tmp_path / "open" / name
    folder.mkdir(parents=True)
    folder.chmod(mode)

    with pytest.raises(GuardError, match="chmod go-w"):
        GuardSettings(socket_path=tmp_path / "open/guard.sock").make_folders()


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(GuardError, match="must be a folder"):
        GuardSettings(socket_path=tmp_path / "link/guard.sock").make_folders()
