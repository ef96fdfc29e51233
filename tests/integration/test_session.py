"""A Ray that an experiment starts for itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

JOIN = "import ray, joulelab_actors.session as s\nwith s.connected(): print(len(ray.nodes()))"
SCRIPT = """
import os, psutil, ray, subprocess, sys
from joulelab_actors.session import connected
with connected(num_cpus=1):
    with connected():
        pass
    assert ray.is_initialized(), "the inner block ended what it had not started"
    left = ray.remote(lambda: 1 / 0).remote()
    ray.get(ray.remote(lambda: None).remote())  # the one core is free again by then
    del left
    children = psutil.Process().children(recursive=True)
    for process in [psutil.Process(), *children]:
        for each in process.net_connections(kind="inet"):
            if each.status == psutil.CONN_LISTEN:
                print(process.name(), each.laddr.ip)
    assert children
    assert not any("monitor.py" in word for each in children for word in each.cmdline())
    join = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    join |= {"RAY_AUTH_MODE": "token"}
    joined = subprocess.run([sys.executable, "-c", sys.argv[1]], env=join, capture_output=True)
    print("joined", joined.stdout.decode().strip(), file=sys.stderr)
gone, alive = psutil.wait_procs(children, timeout=60)
assert not ray.is_initialized()
assert not alive, alive
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def session(home):
    """A process that started a Ray and ended it, and told who listened where meanwhile."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment |= {
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("platform", "actors")),
    }
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, JOIN],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_ray_started_here_ends_with_its_block_and_leaves_no_token_behind(session, home):
    assert session.returncode == 0, session.stderr
    assert not (home / ".ray" / "auth_token").exists()


def test_another_process_of_this_machine_can_join_it_if_it_has_the_token(session):
    """Ray looked for it at the machine's address in its network."""
    assert session.stderr == "joined 1\n"


def test_what_a_call_raises_that_nobody_awaits_any_more_is_not_printed(session):
    """A study that a scheduler had ended told of each GPU's trial in a dozen lines."""
    assert "ZeroDivisionError" not in session.stderr


def test_a_ray_started_here_listens_to_nobody_beyond_this_machine(session):
    """Its metrics, and all of its servers, answered to whoever reached the machine's address."""
    heard = [line.split() for line in session.stdout.splitlines()]

    assert {name for name, _ in heard} >= {"gcs_server", "raylet"}
    assert {ip.removeprefix("::ffff:") for _, ip in heard} == {"127.0.0.1"}
