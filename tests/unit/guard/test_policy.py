"""Who may borrow, set how far, and ask how often; and what is written down of it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from guard_fakes import serving
from waiting import until

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, GuardError, NotAllowedError
from joulelab.guard import audit
from joulelab.guard.client import GuardClient
from joulelab.guard.connection import Peer, peer_of
from joulelab.guard.journal import Journal
from joulelab.guard.policy import Gate, Policy, Rule, read_policy

A = DeviceAddress(backend="nvml", uuid="GPU-a")
ALICE, BOB = Peer(pid=11, uid=1001, gids=frozenset({1001, 500})), Peer(pid=12, uid=1002)
POINT = OperatingPoint(sm_clock_mhz=1095)
ME = Rule(users=("*",), sm_clock_mhz=(900.0, 1200.0))
RULES = """
requests_per_s = 20
burst = 40
audit_file = "/var/log/joulelab/audit.log"

[[allow]]
groups = [500]
sm_clock_mhz = [600, 1980]

[[allow]]
users = ["root", 1001]
sm_clock_mhz = [1200, 1410]
power_limit_w = [300, 700]
"""


@pytest.fixture
def write(tmp_path):
    def write(text, mode=0o644):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


@pytest.fixture
def gate(write):
    return Gate(read_policy(write(RULES)), "FILE")


def point(sm=None, mem=None, limit=None):
    return OperatingPoint(sm_clock_mhz=sm, mem_clock_mhz=mem, power_limit_w=limit)


@pytest.mark.parametrize(
    "asked", [point(), point(600), point(1980), point(1300), point(1300, limit=300.0)]
)
def test_a_point_within_one_rule_may_be_set(gate, asked):
    gate.require_may_set(ALICE, "GPU-a", asked)


@pytest.mark.parametrize(
    "asked",
    [
        point(599),
        point(1981),
        point(1300, mem=2619),  # no rule has it
        point(1300, limit=299.0),
        point(1500, limit=400.0),  # each within a rule, but not in one
    ],
)
def test_a_point_that_no_rule_allows_whole_is_refused_with_who_what_and_what_is_allowed(
    gate, asked
):
    with pytest.raises(ConfigError) as refused:
        gate.require_may_set(ALICE, "GPU-a", asked)

    assert str(refused.value) == (
        f"uid 1001 (pid 11) asked for {asked.label} on GPU-a, but the policy FILE allows "
        "sm_clock_mhz 600 to 1980; or sm_clock_mhz 1200 to 1410, power_limit_w 300 to 700. "
        "Choose a point within that, or ask its administrator."
    )


def test_who_is_in_no_rule_borrows_nothing(gate):
    gate.require_may_borrow(ALICE, "GPU-a")
    gate.require_may_borrow(Peer(pid=1, uid=0), "GPU-a")

    with pytest.raises(GuardError, match=r"uid 1002 \(pid 12\) may not borrow GPU-a"):
        gate.require_may_borrow(BOB, "GPU-a")
    with pytest.raises(ConfigError, match="allows nothing"):
        gate.require_may_set(BOB, "GPU-a", POINT)


def test_without_rules_whoever_connects_may_set_anything(write):
    gate = Gate(read_policy(write("burst = 7\n")), "FILE")

    gate.require_may_borrow(BOB, "GPU-a")
    gate.require_may_set(BOB, "GPU-a", point(135, 810, 100.0))


def test_a_user_asks_a_burst_at_once_and_then_at_a_pace_whatever_others_do():
    now_s = [100.0]
    gate = Gate(Policy(requests_per_s=2.0, burst=3), "FILE", lambda: now_s[0])

    for _ in range(3):
        gate.require_may_ask(ALICE)
    with pytest.raises(GuardError, match=r"uid 1001 asks too often.* 3 requests at once"):
        gate.require_may_ask(ALICE)
    gate.require_may_ask(BOB)
    now_s[0] += 0.5  # time for one
    gate.require_may_ask(ALICE)
    with pytest.raises(GuardError, match="too often"):
        gate.require_may_ask(ALICE)
    now_s[0] += 3600.0  # for 7200, of which three are kept
    for _ in range(3):
        gate.require_may_ask(ALICE)
    with pytest.raises(GuardError, match="too often"):
        gate.require_may_ask(ALICE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("requests_per_s = 0\n", "requests_per_s must be positive"),
        ("request_per_s = 5\n", "unknown fields ['request_per_s']"),
        ('audit_file = "audit.log"\n', "audit_file must be an absolute path, got 'audit.log'"),
        ("[[allow]]\nsm_clock_mhz = [1, 2]\n", 'must name users or groups; users = ["*"] is all'),
        ('[[allow]]\nuser = ["a"]\n', "unknown fields ['user']"),
        ('[[allow]]\nusers = ["*"]\nsm_clock_mhz = [2, 1]\n', "policy.allow[0]: sm_clock_mhz must"),
        ('[[allow]]\nusers = ["*"]\nsm_clock_mhz = [2]\n', "sm_clock_mhz must be a list of 2"),
        ('[[allow]]\nusers = ["*"]\npower_limit_w = "all"\n', "power_limit_w must be a list of 2"),
        ("allow = {}\n", "policy.allow must be a list"),
        ("[[allow]\n", "policy.toml: Expected"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_by_what_is_wrong_with_it(write, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        read_policy(write(text))

    assert "policy.toml" in str(refused.value)


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_file_that_others_can_write_is_not_believed(write, mode):
    with pytest.raises(ConfigError, match="writable by no other"):
        read_policy(write(RULES, mode))


def test_the_example_is_a_policy():
    example = read_policy(Path(__file__).parents[3] / "cluster/guard_policy.toml")

    assert [rule.allows(point(1410)) for rule in example.allow] == [True, True]
    assert [rule.allows(point(1410, limit=500.0)) for rule in example.allow] == [False, True]


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize("field", ["users", "groups"])
def test_a_name_that_this_machine_does_not_know_is_said_at_once(field):
    policy = Policy(allow=(Rule(**{field: ("no-such-name",)}),))

    with pytest.raises(ConfigError, match=f"has no {field[:-1]} 'no-such-name'"):
        Gate(policy, "FILE")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be in other groups")
def test_the_kernel_says_which_groups_a_process_is_in(tmp_path):
    path = str(tmp_path / "socket")
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with subprocess.Popen(
            [sys.executable, "-c", code, path], group=4242, extra_groups=[4243, 4244]
        ) as process:
            link, _ = listener.accept()
            peer = peer_of(link)
            link.close()

    assert peer == Peer(pid=process.pid, uid=0, gids=frozenset({4242, 4243, 4244}))


def test_a_refused_point_leaves_lease_and_device_as_they_were(settings, driver):
    with serving(settings, driver, Gate(Policy(allow=(ME,)), "FILE")) as client:
        with client.lease(A) as lease:
            lease.apply(POINT)
            calls = list(driver.calls)

            with pytest.raises(ConfigError, match=f"pid {os.getpid()}.* asked for 1305MHz"):
                lease.apply(point(1305))

            assert driver.calls == calls
            assert driver.point() == POINT
            lease.require_held()
        assert driver.point() == OperatingPoint()


def test_who_may_not_borrow_is_refused_before_the_device_is_opened(settings, driver):
    nobody = Policy(allow=(Rule(users=(54321,)),))
    with (
        serving(settings, driver, Gate(nobody, "FILE")) as client,
        pytest.raises(GuardError, match=f"uid {os.getuid()} .*may not borrow GPU-a"),
    ):
        client.lease(A)

    assert driver.opened == 0


def test_who_asks_too_often_still_renews_and_gives_back(settings, driver):
    # A lease, a point, and one more for luck.
    with serving(settings, driver, Gate(Policy(requests_per_s=1e-3, burst=3), "FILE")) as client:
        lease = client.lease(A)
        lease.apply(POINT)
        client.status()
        with pytest.raises(GuardError, match="too often"):
            lease.apply(point(990))

        lease._request("renew")
        lease.reset()

        assert driver.point() == OperatingPoint()
        lease.require_held()
        lease.close()


def test_a_policy_that_allows_nothing_restores_what_a_guard_before_it_left(settings, driver):
    driver.points["GPU-a"] = POINT
    settings.make_folders()
    Journal(settings.state_dir).write(
        "set", A, detail="lent", prior=OperatingPoint(), requested=POINT, pid=1, uid=1
    )

    with serving(settings, driver, Gate(Policy(allow=()), "FILE")):
        assert driver.point() == OperatingPoint()


def test_a_guard_writes_down_for_whom_it_did_what(tmp_path, address):
    """One line each on its output and in the file, which may be moved away meanwhile."""
    file, sock = tmp_path / "audit.log", tmp_path / "guard.sock"
    policy = tmp_path / "policy.toml"
    policy.write_text(
        f'audit_file = "{file}"\n[[allow]]\nusers = [{os.getuid()}]\nsm_clock_mhz = [900, 1200]\n'
    )
    policy.chmod(0o644)
    command = ["-m", "joulelab.cli.main", "guard", "--socket", sock, "--policy", policy]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as guard:
        until(sock.exists)
        client = GuardClient(sock, start=False)
        with client.lease(address, 'my "sweep"\nended GPU-x') as lease:
            lease.apply(POINT)
            file.rename(moved := tmp_path / "audit.1")
            with pytest.raises(ConfigError):
                lease.apply(point(1305))
        guard.terminate()
        said = guard.stderr.read()

    me = f"{address.uuid} uid={os.getuid()} pid={os.getpid()}"
    lines = [*moved.read_text().splitlines(), *file.read_text().splitlines()]
    stamps, noted = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp) for stamp in stamps)
    assert [line.partition(" uid")[0].split()[0] for line in noted] == [
        *("leased", "set", "refused", "restored", "ended")
    ]
    assert noted[:2] == (f'leased {me} "my \\"sweep\\"?ended GPU-x"', f'set {me} "1095MHz"')
    assert noted[3:] == (f'restored {me} "given back"', f'ended {me} "given back"')
    assert len(moved.read_text().splitlines()) == 2
    assert [line for line in said.splitlines() if line in noted] == list(noted)
    assert guard.returncode == 0


def test_a_policy_is_read_again_at_a_sighup_and_a_bad_one_is_not_obeyed(tmp_path, address):
    sock, policy = tmp_path / "guard.sock", tmp_path / "policy.toml"
    rule = "[[allow]]\nusers = ['*']\nsm_clock_mhz = [900, {}]\n"
    policy.write_text(rule.format(1200))
    policy.chmod(0o644)
    command = ["-m", "joulelab.cli.main", "guard", "--socket", sock, "--policy", policy]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as guard:

        def read_again(text):
            policy.write_text(text)
            guard.send_signal(signal.SIGHUP)
            return next(line for line in guard.stderr if line.startswith("SIGHUP"))

        until(sock.exists, 60)
        with GuardClient(sock, start=False).lease(address) as lease:
            lease.apply(POINT)
            with pytest.raises(NotAllowedError, match="asked for 1305MHz"):
                lease.apply(point(1305))
            good = read_again(rule.format(1400))
            lease.apply(point(1305))
            bad = read_again("[[allow]]\nusers = ['*']\nsm_clock_mhz = [2, 1]\n")
            lease.apply(point(1395))
            with pytest.raises(NotAllowedError):
                lease.apply(point(1410))
        guard.terminate()

    assert good == "SIGHUP: the policy was read again.\n"
    assert "the policy from before holds on" in bad
    assert "policy.allow[0]: sm_clock_mhz must be [lowest, highest]" in bad
    assert guard.returncode == 0


def test_an_audit_file_that_cannot_be_written_keeps_the_guard_from_starting(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text(f'audit_file = "{tmp_path}/absent/audit.log"\n')
    policy.chmod(0o644)
    command = ["-m", "joulelab.cli.main", "guard", "--socket", tmp_path / "s", "--policy", policy]

    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "audit_file must be a file that the clock guard can write" in done.stderr


def test_an_audit_file_that_can_be_written_no_more_keeps_nobody_from_giving_back(
    settings, driver, tmp_path, capsys
):
    """Lines go on once it can be written again."""
    folder = tmp_path / "log"
    folder.mkdir()
    audit.keep_in(folder / "audit.log")
    handler = audit._log.handlers[-1]
    try:
        with serving(settings, driver) as client:
            lease = client.lease(A)
            shutil.rmtree(folder)
            lease.apply(POINT)
            lease.reset()
            assert driver.point() == OperatingPoint()
            folder.mkdir()
            lease.close()
            until(lambda: client.status().leases == ())
    finally:
        audit._log.removeHandler(handler)
        handler.close()

    assert "ended GPU-a" in (folder / "audit.log").read_text()
    assert "No such file or directory" in capsys.readouterr().err
