"""Clients that break off, crowd, lie or stand still, and guards that are none."""

import errno
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from math import inf
from pathlib import Path

import pytest
from guard_fakes import borrower, is_gone, is_locked, status_of
from waiting import PATIENCE_S, until

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import store as driver_store
from joulelab.devices.simulated.store import default_root
from joulelab.errors import DeviceError, GuardError
from joulelab.guard import reception, start
from joulelab.guard import settings as guard_settings
from joulelab.guard.client import GuardClient
from joulelab.guard.connection import Link
from joulelab.guard.daemon import await_end
from joulelab.guard.processes import Heartbeat, stands_still
from joulelab.guard.protocol import PROTOCOL, encode, result_of
from joulelab.guard.reception import Reception
from joulelab.guard.settings import GuardSettings, default_socket_path, require_own_store
from joulelab.guard.start import ensure_guard

A = DeviceAddress(backend="nvml", uuid="GPU-a")
B = DeviceAddress(backend="nvml", uuid="GPU-b")
POINT = OperatingPoint(sm_clock_mhz=1095)
LEASE = encode({"do": "lease", "address": {"backend": "nvml", "uuid": "GPU-a"}, "ttl_s": 30})
ANOTHER_UID = 54321


def connected(path):
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(path))
    return link


def test_a_client_that_asks_and_hangs_up_ends_nothing_but_itself(client, settings, driver):
    """One such client ended the guard, and all others lost their leases."""
    with client.lease(B) as honest:
        honest.apply(POINT)
        for _ in range(50):
            link = connected(settings.socket_path)
            link.sendall(LEASE)
            link.close()

        until(lambda: len(client.status().leases) == 1)
        honest.require_held()
    assert driver.opened > 1, "the leases were granted, and taken back"


def test_a_client_may_break_off_at_every_byte(client, settings):
    for length in range(len(LEASE)):
        with closing(connected(settings.socket_path)) as link:
            link.sendall(LEASE[:length])

    until(lambda: client.status().leases == ())


def test_two_requests_at_once_are_cut_off(client, settings):
    with closing(connected(settings.socket_path)) as link:
        link.sendall(encode({"do": "status"}) * 2)

        assert link.recv(100) == b""


def test_a_crowd_that_says_nothing_keeps_nobody_from_being_served(client, settings):
    with client.lease(A) as first, ExitStack() as crowd:
        for _ in range(3 * reception.MOST_OF_ONE_USER):
            crowd.enter_context(closing(connected(settings.socket_path)))

        with client.lease(B) as second:
            second.apply(POINT)
            first.require_held()


def test_a_newcomer_does_not_make_room_for_those_who_say_nothing(client, settings):
    with ExitStack() as crowd:
        for _ in range(reception.MOST_OF_ONE_USER):
            crowd.enter_context(closing(connected(settings.socket_path)))

        with closing(connected(settings.socket_path)) as newcomer:
            for _ in range(2):
                newcomer.sendall(encode({"do": "status"}))
                assert b"ok" in newcomer.recv(1000)


def test_a_client_that_is_slow_to_ask_is_sent_away(client, settings, monkeypatch):
    monkeypatch.setattr(reception, "_IDLE_S", 0.5)
    with client.lease(A) as lease, closing(connected(settings.socket_path)) as link:
        link.sendall(LEASE[:10])
        link.settimeout(PATIENCE_S)

        assert link.recv(100) == b""
        lease.require_held()


def test_a_guard_that_runs_out_of_descriptors_goes_on_and_serves(tmp_path):
    """525 connections ended it."""
    code = (
        "import sys; from pathlib import Path; from joulelab.guard.settings import GuardSettings;"
        "from joulelab.guard.process import run_guard;"
        "run_guard(GuardSettings(socket_path=Path(sys.argv[1])))"
    )
    path = tmp_path / "guard.sock"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    ) as guard:
        try:
            until(path.exists)
            with ExitStack() as crowd:
                for _ in range(100):
                    crowd.enter_context(closing(connected(path)))
                status = GuardClient(path, start=False).status()

            assert status.pid == guard.pid
        finally:
            guard.terminate()
        assert guard.wait() == 0


@pytest.fixture
def daemon(tmp_path):
    client = GuardClient(tmp_path / "guard.sock")
    ensure_guard(client.socket_path)
    until(lambda: status_of(client))
    yield client
    ensure_guard(client.socket_path)
    client.stop()


def test_a_guard_that_stands_still_is_replaced_and_everything_restored(daemon, address, gpu):
    """Stopped, with the study killed, it left the GPUs locked for good."""
    before = daemon.status()
    with borrower(daemon, address) as study:
        os.kill(before.pid, signal.SIGSTOP)
        study.kill()

        until(lambda: not is_locked(gpu))
    assert until(lambda: status_of(daemon)).pid != before.pid


def test_a_watchdog_that_stands_still_is_replaced(daemon):
    before = daemon.status()

    os.kill(before.watchdog_pid, signal.SIGSTOP)

    after = until(lambda: (s := status_of(daemon)) and s.watchdog_pid != before.watchdog_pid and s)
    assert after.pid == before.pid


def test_where_both_stand_still_the_next_client_gets_another_guard(daemon, address, gpu):
    before = daemon.status()
    with borrower(daemon, address) as study:
        for pid in (before.watchdog_pid, before.pid):
            os.kill(pid, signal.SIGSTOP)
        study.kill()

        ensure_guard(daemon.socket_path)

        assert not is_locked(gpu)
    assert status_of(daemon).pid != before.pid
    os.kill(before.watchdog_pid, signal.SIGKILL)


def test_a_guard_that_is_mute_for_long_is_ended(tmp_path):
    code = (
        "import sys, time; from pathlib import Path;"
        "from joulelab.guard.processes import Heartbeat;"
        "Heartbeat(Path(sys.argv[1])); time.sleep(60)"
    )
    path = tmp_path / "heartbeat"
    child = subprocess.Popen([sys.executable, "-c", code, str(path)])
    until(path.exists)

    until(lambda: stands_still(child.pid, path, mute_s=0.3))

    assert not stands_still(child.pid, path, mute_s=60.0)
    path.write_text(f"{child.pid} {time.monotonic() - 3600}\n")
    assert await_end(child.pid, path) == -signal.SIGKILL
    child.wait()


def test_the_heartbeat_of_another_process_tells_nothing(tmp_path):
    Heartbeat(tmp_path / "heartbeat").close()

    assert not stands_still(os.getppid(), tmp_path / "heartbeat", mute_s=-1.0)


def give_to_another(path, monkeypatch):
    """Let ``path`` belong to another user than the one who asks."""
    if os.getuid() == 0:
        os.chown(path, ANOTHER_UID, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: ANOTHER_UID)


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_a_socket_that_another_user_made_is_not_believed(client, settings, monkeypatch, what):
    """Another user's process answered in the guard's place, with forged receipts."""
    path = settings.socket_path if what == "socket" else settings.socket_path.parent
    give_to_another(path, monkeypatch)

    with pytest.raises(GuardError, match="somebody may pose as the guard"):
        client.status()
    with pytest.raises(GuardError, match="somebody may pose as the guard"):
        ensure_guard(settings.socket_path)

    if os.getuid() == 0:
        os.chown(path, 0, -1)
    monkeypatch.undo()


def test_a_folder_that_another_user_made_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    give_to_another(tmp_path / "theirs", monkeypatch)

    with pytest.raises(GuardError, match="must be a folder that belongs to uid"):
        GuardSettings(socket_path=tmp_path / "theirs/guard.sock").make_folders()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707])
def test_a_folder_that_others_can_write_is_not_believed(client, settings, mode):
    settings.socket_path.parent.chmod(mode)

    with pytest.raises(GuardError, match="somebody may pose as the guard"):
        client.status()

    settings.socket_path.parent.chmod(0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_who_answers_must_be_root_or_oneself(tmp_path):
    tmp_path.chmod(0o755)
    path = tmp_path / "guard.sock"
    code = (
        "import os, socket, sys; link = socket.socket(socket.AF_UNIX); link.bind(sys.argv[1]);"
        f"os.setuid({ANOTHER_UID}); link.listen(); print('up', flush=True); link.accept()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as impostor:
        impostor.stdout.readline()

        with pytest.raises(GuardError, match=f"uid {ANOTHER_UID}.*may pose"):
            Link(path)
        impostor.kill()


def test_a_store_that_another_user_made_is_not_written_to(tmp_path, monkeypatch):
    (tmp_path / "driver").mkdir()
    give_to_another(tmp_path / "driver", monkeypatch)

    with pytest.raises(GuardError, match=f"belong to uid {os.getuid()}"):
        require_own_store(str(tmp_path / "driver"), os.getuid())


@pytest.mark.skipif(os.getuid() != 0, reason="it is root who must not follow links")
def test_roots_guard_follows_no_link(tmp_path):
    """A link that anybody made let it write into a folder of root's alone."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    require_own_store(str(tmp_path / "real"), 0)
    with pytest.raises(GuardError, match="without links"):
        require_own_store(str(tmp_path / "link"), 0)


@pytest.mark.skipif(os.getuid() != 0, reason="it is root who looks at the folders above")
def test_roots_guard_writes_below_no_folder_that_others_may_change(tmp_path):
    (tmp_path / "driver").mkdir()
    tmp_path.chmod(0o777)

    with pytest.raises(GuardError, match="where others cannot write"):
        require_own_store(str(tmp_path / "driver"), 0)


@pytest.mark.parametrize("store", [None, "", "relative", "/nowhere/at/all"])
def test_a_store_is_a_path_that_exists(store):
    with pytest.raises(GuardError, match="absolute path that exists"):
        require_own_store(store, os.getuid())


def test_a_guard_that_serves_others_writes_no_files_for_them(tmp_path):
    with pytest.raises(GuardError, match="a guard of your own"):
        require_own_store(str(tmp_path), ANOTHER_UID)


def test_the_default_store_is_resolved_by_the_client(client, gpu, store, monkeypatch):
    """A guard of the system's looked for it in a folder of its own user's."""
    sim = DeviceAddress(backend="simulated", uuid=gpu.uuid)
    monkeypatch.setattr(driver_store, "default_root", lambda: store.root)

    with pytest.raises(DeviceError, match="there are GPU-a, GPU-b"):  # the store itself is fine
        client.lease(sim)

    assert default_socket_path(sim) == Path(f"/tmp/joulelab-guard-{os.getuid()}/guard.sock")


@pytest.mark.parametrize("address", [None, DeviceAddress(backend="nvml", uuid="GPU-a")])
def test_hardware_is_lent_by_the_guard_of_the_system_where_there_is_one(
    tmp_path, monkeypatch, address
):
    monkeypatch.setattr(guard_settings, "SYSTEM_SOCKET", tmp_path / "guard.sock")

    assert default_socket_path(address) == tmp_path / "guard.sock"


def test_a_default_store_that_somebody_else_prepared_is_refused(monkeypatch):
    uid = ANOTHER_UID + os.getpid()
    (own := Path(f"/tmp/joulelab-{uid}")).mkdir()
    monkeypatch.setattr(os, "getuid", lambda: uid)

    with pytest.raises(DeviceError, match=f"belongs to uid {uid}"):
        default_root()

    own.rmdir()


def test_a_client_of_another_version_is_told_so(client, settings):
    with closing(connected(settings.socket_path)) as link:
        link.sendall(LEASE.replace(f'"protocol":{PROTOCOL}'.encode(), b'"protocol":1'))

        said = link.recv(1000).decode()

    assert f"speaks protocol {PROTOCOL}" in said
    assert "joulelab guard --stop" in said


@pytest.mark.parametrize("protocol", [{}, {"protocol": PROTOCOL + 1}])
def test_a_guard_of_another_version_is_told_apart(protocol):
    with pytest.raises(GuardError, match=f"this joulelab {PROTOCOL}"):
        result_of({"ok": {"guard_pid": 1}, **protocol})


def speak_another_protocol(monkeypatch):
    for module in ("protocol", "connection"):
        monkeypatch.setattr(f"joulelab.guard.{module}.PROTOCOL", PROTOCOL + 1)


def test_an_idle_guard_of_another_version_makes_room_for_ours(daemon, monkeypatch):
    before = daemon.status()
    speak_another_protocol(monkeypatch)
    with pytest.raises(GuardError, match="protocol"):
        daemon.status()

    assert start._ended_idle_one(daemon.socket_path)

    assert is_gone(before.pid), "whoever starts the next one must not meet this one's lock"
    assert is_gone(before.watchdog_pid)
    monkeypatch.undo()
    ensure_guard(daemon.socket_path)
    assert daemon.status().pid != before.pid


def test_a_guard_of_another_version_that_is_in_use_stays(daemon, address, monkeypatch):
    with daemon.lease(address) as lease:
        speak_another_protocol(monkeypatch)

        assert not start._ended_idle_one(daemon.socket_path)

        monkeypatch.undo()
        lease.require_held()


def test_what_a_daemon_logs_is_its_users_business(daemon):
    logs = list(GuardSettings(socket_path=daemon.socket_path).state_dir.glob("*.log"))

    assert [log.stat().st_mode & 0o077 for log in logs] == [0, 0]


def test_what_a_client_says_cannot_move_the_cursor_of_who_reads_it(client):
    with client.lease(A, "\x1b[2J\x07sweep\nnext"):
        (held,) = client.status().leases

    assert held.note == "?[2J?sweep?next"


def test_where_nobody_can_be_sent_away_newcomers_wait_for_a_moment(settings):
    with selectors.DefaultSelector() as selector:
        reception = Reception(
            selector,
            answer=lambda connection, line: {},
            holds=lambda connection: True,
            ended=lambda connection, cause: None,
        )
        reception.open(settings)

        before_s = time.monotonic()
        reception._make_room(OSError(errno.EMFILE, "Too many open files"))

        assert not selector.get_map()  # else it would be woken by them again and again
        assert before_s < reception.due_s < time.monotonic() + 1.0
        time.sleep(max(0.0, reception.due_s - time.monotonic()))
        reception.tend()
        assert len(selector.get_map()) == 1
        assert reception.due_s == inf
        reception.close("the end")
