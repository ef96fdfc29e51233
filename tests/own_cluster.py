"""Clusters of Ray that tests start by the scripts of ``cluster/``, in places of their own."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psutil
from doc_pages import ROOT

from joulelab.guard.settings import GuardSettings


@contextmanager
def place_made():
    """A folder for a cluster's state, with a path short enough for its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def environment_of(place):
    """What a user's shell holds, with ports and folders of the test's own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "SLURM_"))}
    return inherited | {
        "HOME": str(place),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "RUN_DIR": str(place / "run"),
        "RAY_TMPDIR": str(place / "ray"),
        "RAY_PORT": str(free_ports(20)),
        "TMPDIR": str(place),
        "VENV": sys.prefix,
    }


def free_ports(count):
    """Return the first of ``count`` neighbouring ports that nobody uses now.

    Somewhere at random, since another who looks at this moment finds the same ones free.
    """
    for first in random.sample(range(20000, 32000, count), 100):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def shell(command, environment):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def processes_of(place):
    """Return the processes that belong to the cluster in ``place``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RAY_TMPDIR") == str(place / "ray"):
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def started(place, environment):
    """Start a cluster of this machine alone, as a user would; yields its place and environment."""
    log = (place / "node.log").open("wb")
    node = subprocess.Popen(
        ["cluster/ray_node.sh"], cwd=ROOT, env=environment, stdout=log, stderr=log
    )
    wait = '. cluster/env.sh; python -m joulelab_actors.wait_ready --run-dir "$RUN_DIR" --nodes 1'
    ready = shell(wait, environment)
    try:
        assert ready.returncode == 0, ready.stderr + (place / "node.log").read_text()
        yield place, environment
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(60)
        log.close()
        # The guard outlives Ray by design, and ends by itself after some idle minutes.
        guard = f"{sys.executable} -m joulelab.cli.main guard --socket {place}/guard.sock --stop"
        stopped = shell(guard, environment)
        log = GuardSettings(socket_path=place / "guard.sock").log_path
        if log.exists():  # a test that set no clock needed no guard
            has_ended = "No clock guard answers" in stopped.stderr  # on a busy machine, by itself
            assert stopped.returncode == 0 or has_ended, stopped.stderr + log.read_text()
    left, _ = psutil.wait_procs(processes_of(place), timeout=60)[::-1]
    assert not left
