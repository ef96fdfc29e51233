"""The guard as users meet it: processes that are started on demand, killed, and revived."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from guard_fakes import BORROWER, borrower, is_gone, is_locked, status_of
from waiting import PATIENCE_S, until

from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import Fault
from joulelab.errors import GuardError
from joulelab.guard.client import GuardClient
from joulelab.guard.processes import wait_until_ended
from joulelab.guard.settings import GuardSettings
from joulelab.guard.start import ensure_guard

POINT = OperatingPoint(sm_clock_mhz=1095, power_limit_w=350.0)
LEASE_S = 600.0
"""For which nothing here waits."""


def daemons(socket_path):
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if str(socket_path) in process.cmdline():
                found.append(process.pid)
    return found


@pytest.fixture
def client(tmp_path):
    client = GuardClient(tmp_path / "guard.sock")
    yield client
    if daemons(client.socket_path):
        ensure_guard(client.socket_path)  # it may just be reviving, or about to end
        client.stop()
    until(lambda: not daemons(client.socket_path))


@pytest.fixture
def lease(client, address):
    """A device that is borrowed and set, and given back whatever has become of the guard."""
    lease = client.lease(address)
    lease.apply(POINT)
    yield lease
    lease.close()


def test_what_an_administrator_had_locked_is_locked_again(client, address, gpu):
    gpu.lock_sm(1500, 1500)
    gpu.limit_power(500.0)

    with client.lease(address) as lease:
        receipt = lease.apply(POINT)
        assert gpu.settings().locked_sm_mhz == (1095, 1095)
        assert receipt.held == POINT
        assert receipt.prior == OperatingPoint(sm_clock_mhz=1500, power_limit_w=500.0)

    assert gpu.settings().locked_sm_mhz == (1500, 1500)
    assert gpu.settings().power_limit_w == 500.0


def test_a_privileged_guard_sets_what_its_client_may_not(client, address, gpu):
    gpu.write("restricted", "1")
    ensure_guard(client.socket_path)
    gpu.grant(client.status().pid)

    with client.lease(address) as lease:
        lease.apply(POINT)

        assert is_locked(gpu)
    assert not is_locked(gpu)


def test_killing_the_client_restores_long_before_its_lease_would_run_out(client, address, gpu):
    with borrower(client, address, LEASE_S) as process:
        assert is_locked(gpu)

        process.kill()

        until(lambda: not is_locked(gpu))


def test_a_program_that_ends_without_giving_back_is_not_kept_by_its_lease(client, address, gpu):
    code = BORROWER.replace("time.sleep(60)", "")
    command = [sys.executable, "-c", code, client.socket_path, address.uuid, address.store, "600"]

    assert subprocess.run(command, timeout=PATIENCE_S, check=False).returncode == 0

    until(lambda: not is_locked(gpu))


def test_a_forked_child_that_lives_on_does_not_keep_the_lease(client, address, gpu):
    """A data loader's worker inherits the socket; the end of the connection is never seen."""
    with borrower(client, address, LEASE_S, "forks") as process:
        process.kill()

        until(lambda: not is_locked(gpu))


def test_a_client_that_stands_still_loses_its_lease(client, address, gpu):
    with borrower(client, address, 2.0) as process:
        process.send_signal(signal.SIGSTOP)

        until(lambda: not is_locked(gpu))


def test_killing_the_guard_restores_and_the_client_is_told(client, address, gpu, lease):
    before = until(lambda: status_of(client))

    os.kill(before.pid, signal.SIGKILL)

    until(lambda: not is_locked(gpu))
    with pytest.raises(GuardError, match="lost"):
        lease.require_held()
    after = until(lambda: status_of(client))
    assert after.pid != before.pid
    assert after.watchdog_pid == before.watchdog_pid
    with client.lease(address) as again:
        again.apply(POINT)


def test_killing_the_watchdog_changes_nothing_but_the_watchdog(client, address, gpu):
    with client.lease(address) as lease:
        lease.apply(POINT)
        before = until(lambda: status_of(client))

        os.kill(before.watchdog_pid, signal.SIGKILL)

        after = until(
            lambda: (s := status_of(client)) and s.watchdog_pid != before.watchdog_pid and s
        )
        assert after.pid == before.pid
        lease.require_held()
        assert is_locked(gpu)


def test_a_watchdog_that_was_started_by_a_guard_revives_that_guard(client, gpu, lease):
    first = until(lambda: status_of(client))
    os.kill(first.watchdog_pid, signal.SIGKILL)
    second = until(lambda: (s := status_of(client)) and s.watchdog_pid != first.watchdog_pid and s)

    os.kill(second.pid, signal.SIGKILL)

    until(lambda: not is_locked(gpu))
    third = until(lambda: status_of(client))
    assert third.watchdog_pid == second.watchdog_pid
    until(lambda: is_gone(first.pid) and is_gone(first.watchdog_pid))


def test_killing_both_restores_when_the_next_guard_starts(client, gpu, lease):
    status = until(lambda: status_of(client))
    for pid in (status.watchdog_pid, status.pid):  # quicker than either can help the other
        os.kill(pid, signal.SIGSTOP)
    for pid in (status.watchdog_pid, status.pid):
        os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(status.pid) and is_gone(status.watchdog_pid))
    assert is_locked(gpu)

    ensure_guard(client.socket_path)

    assert not is_locked(gpu)


def test_a_revived_guard_without_permission_keeps_trying_until_it_has_it(client, address, gpu):
    gpu.write("restricted", "1")
    ensure_guard(client.socket_path)
    gpu.grant(client.status().pid)
    lease = client.lease(address)
    lease.apply(POINT)
    before = until(lambda: status_of(client))
    os.kill(before.pid, signal.SIGKILL)
    after = until(lambda: (s := status_of(client)) and s.pid != before.pid and s)
    assert until(lambda: client.status().pending)
    assert is_locked(gpu)

    gpu.grant(after.pid)

    until(lambda: not is_locked(gpu))
    until(lambda: not client.status().pending)
    lease.close()


def test_a_signal_restores_everything_and_ends_both_processes(client, gpu, lease):
    status = until(lambda: status_of(client))

    os.kill(status.pid, signal.SIGTERM)

    until(lambda: is_gone(status.pid) and is_gone(status.watchdog_pid))
    assert not is_locked(gpu)
    assert not client.socket_path.exists()


def test_stop_returns_when_both_processes_are_gone(client, gpu, lease):
    status = until(lambda: status_of(client))

    client.stop()

    assert not is_locked(gpu)
    assert is_gone(status.pid)
    assert is_gone(status.watchdog_pid)


def test_an_idle_guard_ends_with_its_watchdog(client):
    ensure_guard(client.socket_path, idle_exit_s=1.5)

    until(lambda: not daemons(client.socket_path))

    assert not client.socket_path.exists()


def test_many_starters_get_one_guard(client):
    code = (
        "import sys; from pathlib import Path; from joulelab.guard.start import ensure_guard;"
        "ensure_guard(Path(sys.argv[1]))"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", code, client.socket_path]) for _ in range(4)
    ]

    assert [starter.wait() for starter in starters] == [0] * 4

    assert len(daemons(client.socket_path)) == 2


def test_the_guard_outlives_the_session_of_the_process_that_started_it(client, address, gpu):
    with borrower(client, address, LEASE_S) as process:
        status = client.status()
        assert psutil.Process(status.watchdog_pid).ppid() != process.pid

        os.killpg(process.pid, signal.SIGKILL)

        until(lambda: not is_locked(gpu))
    assert client.status().pid == status.pid


def test_a_second_guard_in_the_foreground_is_refused(client):
    ensure_guard(client.socket_path)
    code = (
        "import sys; from joulelab.guard import GuardSettings; from pathlib import Path;"
        "from joulelab.guard.process import run_guard;"
        "run_guard(GuardSettings(socket_path=Path(sys.argv[1])))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, client.socket_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Another clock guard serves" in done.stderr


def test_a_guard_that_cannot_start_says_why(tmp_path):
    (tmp_path / "guard.state").write_text("not a folder")

    with pytest.raises(GuardError, match=r"guard\.state"):
        ensure_guard(tmp_path / "guard.sock")


def test_a_foreground_guard_restores_on_ctrl_c(tmp_path, address, gpu):
    settings = GuardSettings(socket_path=tmp_path / "guard.sock")
    code = (
        "import sys; from joulelab.cli.guard import Guard; from pathlib import Path;"
        "sys.exit(Guard(socket=Path(sys.argv[1])).run())"
    )
    with subprocess.Popen([sys.executable, "-c", code, settings.socket_path]) as guard:
        until(settings.socket_path.exists)
        lease = GuardClient(settings.socket_path, start=False).lease(address)
        lease.apply(POINT)

        guard.send_signal(signal.SIGINT)

        assert guard.wait() == 0
    assert not is_locked(gpu)
    lease.close()


@pytest.mark.parametrize(("is_mended", "status"), [(True, 0), (False, 1)])
def test_a_guard_that_ends_tries_on_to_restore_and_tells_if_it_could_not(
    tmp_path, address, gpu, is_mended, status
):
    path = tmp_path / "guard.sock"
    code = (
        "import sys; from pathlib import Path; from joulelab.guard import GuardSettings, process;"
        "process._LAST_RESTORE_S = float(sys.argv[2]);"
        "sys.exit(process.run_guard(GuardSettings(socket_path=Path(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, path, "10" if is_mended else "0.2"]
    with subprocess.Popen(command) as guard:
        until(path.exists)
        lease = GuardClient(path, start=False).lease(address)
        lease.apply(POINT)
        gpu.inject(Fault(kind="refused"))

        guard.terminate()
        until(lambda: not path.exists())
        if is_mended:
            gpu.clear_faults()

        assert guard.wait() == status
    assert is_locked(gpu) is not is_mended
    lease.close()


def test_a_process_that_takes_a_moment_to_end_is_waited_for():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"]) as process:
        with wait_until_ended([process.pid], 10.0):
            pass

        assert process.poll() == 0
