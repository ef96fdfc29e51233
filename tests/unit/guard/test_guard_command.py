"""``joulelab guard``, and whom a guard serves."""

import grp
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from waiting import until

from joulelab.cli.guard import Guard
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated.store import DriverStore
from joulelab.errors import ConfigError, GuardError
from joulelab.guard.client import GuardClient
from joulelab.guard.connection import Link
from joulelab.guard.protocol import decode, encode

GUARD = "import sys; from joulelab.cli.guard import Guard; from pathlib import Path; sys.exit(Guard"


@pytest.fixture
def folder():
    """A folder that other users can enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="guard"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def foreground(socket_path, **options):
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    code = f"{GUARD}(socket=Path(sys.argv[1]), {given}).run())"
    with subprocess.Popen([sys.executable, "-c", code, socket_path]) as process:
        until(socket_path.exists)
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def address(tmp_path):
    store = DriverStore(tmp_path / "driver")
    gpu = store.create("a100_sxm", 0)
    return DeviceAddress(backend="simulated", uuid=gpu.uuid, store=str(store.root))


def test_status_says_who_holds_what(folder, address, capsys):
    command = Guard(socket=folder / "guard.sock", status=True)
    with foreground(folder / "guard.sock"):
        client = GuardClient(folder / "guard.sock", start=False)
        with client.lease(address, "my sweep") as lease:
            lease.apply(OperatingPoint(sm_clock_mhz=1095))

            assert command.run() == 0

    told = capsys.readouterr().out
    assert f"{address.uuid}: 1095MHz, pid {os.getpid()}" in told
    assert "my sweep" in told


def test_status_as_json(folder, capsys):
    with foreground(folder / "guard.sock") as process:
        Guard(socket=folder / "guard.sock", status=True, json=True).run()

        told = json.loads(capsys.readouterr().out)

    assert told["pid"] == process.pid
    assert told["watchdog_pid"] is None
    assert told["leases"] == told["pending"] == []


def test_stop_ends_a_guard(folder, capsys):
    with foreground(folder / "guard.sock") as process:
        assert Guard(socket=folder / "guard.sock", stop=True).run() == 0

        assert process.wait() == 0

    assert "has ended" in capsys.readouterr().out


def test_asking_a_guard_that_is_not_there_starts_none(folder):
    with pytest.raises(GuardError, match="No clock guard answers"):
        Guard(socket=folder / "guard.sock", status=True).run()

    assert list(folder.iterdir()) == []


def test_status_and_stop_exclude_each_other():
    with pytest.raises(ConfigError, match="--status, --stop and --restore"):
        Guard(status=True, stop=True).run()


def test_a_longer_time_to_live_than_the_guard_allows_is_refused(folder, address):
    with (
        foreground(folder / "guard.sock", ttl_s=5.0),
        pytest.raises(ConfigError, match="at most 5,"),
    ):
        GuardClient(folder / "guard.sock", start=False).lease(address, ttl_s=6.0)


def test_an_unknown_group_is_a_config_error(folder):
    with pytest.raises(ConfigError, match="no-such-group"):
        Guard(socket=folder / "guard.sock", group="no-such-group").run()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_guard_for_a_group_neither_writes_files_nor_stops_for_its_members(folder, address):
    requests = [
        {"do": "status"},
        {"do": "lease", "ttl_s": 5, "address": asdict(address)},
        {"do": "stop"},
    ]
    with foreground(folder / "guard.sock", group="nogroup"):
        mode = (folder / "guard.sock").stat()
        assert stat.S_IMODE(mode.st_mode) == 0o660
        assert mode.st_gid == grp.getgrnam("nogroup").gr_gid

        status, lease, stop = as_nobody(lambda: replies(folder / "guard.sock", requests))

    assert "ok" in status
    assert "writes files for that user only" in lease["error"]["message"]
    assert "may stop" in stop["error"]["message"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_others_cannot_connect_without_a_group(folder):
    with foreground(folder / "guard.sock"):
        refused = as_nobody(lambda: refusal(folder / "guard.sock"))

    assert "does not serve uid" in refused


def replies(socket_path, requests):
    link = Link(socket_path)
    told = []
    for request in requests:
        link._socket.sendall(encode(request))
        told.append(decode(link._line()))
    return told


def refusal(socket_path):
    try:
        Link(socket_path)
    except GuardError as error:
        return str(error)
    return "none"


def as_nobody(function):
    """What ``function`` returns in a child process of the user and group nobody."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(grp.getgrnam("nogroup").gr_gid)
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        os.write(write, json.dumps(function()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)
