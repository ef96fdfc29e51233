"""A SLURM of a few nodes on this machine, as a user and as the machine room see it."""

import copy
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from joulelab.devices.simulated import DriverStore
from joulelab.tracking.store import ResultStore

LAB = Path(__file__).parent / "cluster/lab"
CONTROLLERS = ("cpuacct", "cpuset", "memory", "devices", "freezer")


def missing():
    """Say what this machine lacks to be made into a cluster; empty if nothing."""
    if os.geteuid() != 0:
        return "root, to make namespaces"
    needed = ("slurmctld", "slurmd", "munged", "unshare", "nsenter", "setpriv", "ip")
    lacking = [name for name in needed if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} (Debian: slurm-wlm, munge, util-linux, iproute2)"
    lacking = [name for name in CONTROLLERS if not Path("/sys/fs/cgroup", name).is_dir()]
    if lacking:
        return f"the cgroup v1 controllers {', '.join(lacking)} under /sys/fs/cgroup"
    spaces = ["unshare", "--net", "--uts", "--mount", "--cgroup", "--pid", "--fork", "true"]
    made = subprocess.run(spaces, capture_output=True, text=True, check=False)
    return f"namespaces: {made.stderr.strip()}" if made.returncode else ""


class SlurmLab:
    """The cluster in ``folder``, a new one with a short path, of ``num_nodes`` n1, n2, ...

    Every node has two GPUs for SLURM; the simulated ones of joulelab are dealt out to nodes. It has
    two users, each with the code in a home of their own.
    """

    USERS = ("researcher", "colleague")

    def __init__(self, folder, num_nodes=3):
        self.folder = folder
        self.nodes = [f"n{number}" for number in range(1, num_nodes + 1)]

    def up(self):
        places = {"VENV": sys.prefix, "PYTHON_HOME": sys.base_prefix}
        self._run([LAB / "up.sh", self.folder, str(len(self.nodes))], env=os.environ | places)
        self._log_in(self.USERS[0])

    def other(self):
        """Return the same cluster as its other user sees it."""
        seen = copy.copy(self)
        seen._log_in(next(name for name in self.USERS if name != self.name))
        return seen

    def _log_in(self, name):
        self.name, self.home = name, self.folder / "home" / name
        self.uid = self.home.stat().st_uid

    def down(self):
        self._run([LAB / "down.sh", self.folder])

    def user(self, command):
        """Run a command as the user on the login node, in the repository; return what it says."""
        return self._run([self.folder / "as_user.sh", self.name, command])

    def on(self, node, command):
        """Run a command as root on a node."""
        return self._run([self.folder / "on.sh", node, command])

    def submit(self, script, *options):
        """Submit a job of ``cluster/ray.sbatch``; return its number."""
        words = " ".join(["sbatch --parsable", *options, "cluster/ray.sbatch", script])
        return int(self.user(words))

    def job(self, job):
        """Return what SLURM says of a job, name by name."""
        said = self.user(f"scontrol show job --oneliner {job}")
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def await_state(self, job, *states, limit_s=300):
        """Wait until a job is in one of ``states``, and return in which.

        It may take long on a busy machine, but is to print or measure something all the time.
        """
        return self.until(
            lambda: next((s for s in states if self.job(job)["JobState"] == s), None),
            f"job {job} to be {' or '.join(states)}",
            limit_s,
            progress=self._progress,
        )

    def log(self, job):
        """Return what a job has printed."""
        path = self.home / "joulelab" / f"slurm-{job}.out"
        return path.read_text() if path.exists() else ""

    def store(self, study):
        """Return the results of a study of the user."""
        return ResultStore(self.home / "joulelab-results" / study)

    def num_lines(self, study):
        """Count the measurements that are on disk, without reading them."""
        files = (self.store(study).folder / "measurements").glob("*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)

    def await_measurements(self, study, count, limit_s=300):
        self.until(
            lambda: self.num_lines(study) >= count,
            f"{count} of {study}",
            limit_s,
            progress=self._progress,
        )

    def until(self, condition, what, limit_s=300, *, progress=lambda: None):
        """Wait for ``condition`` to be true, and return it; fail after so long without progress."""
        seen, since_s = progress(), time.monotonic()
        while not (found := condition()):
            if (now := progress()) != seen:
                seen, since_s = now, time.monotonic()
            if time.monotonic() > since_s + limit_s:
                raise AssertionError(f"waited {limit_s} s for {what}\n{self._last_words()}")
            time.sleep(0.1)
        return found

    def _progress(self):
        """Return how much has been measured for the user, and printed by jobs and their nodes."""
        measured = (self.home / "joulelab-results").glob("*/measurements/*.jsonl")
        return sum(path.stat().st_size for path in (*measured, *self._printed()))

    def _printed(self):
        folder = self.home / "joulelab"
        return [*folder.glob("slurm-*.out"), *folder.glob(".run/*/node-*.log")]

    def _last_words(self):
        last = sorted(self._printed(), key=lambda path: path.stat().st_mtime)[-4:]
        return "\n".join(f"{path.name}: ...{path.read_text()[-800:]}" for path in last)

    def locked(self):
        """Return the GPUs on which a setting is in force, as ``node:uuid``."""
        return [f"{n}:{uuid}" for n in self.nodes for uuid in self.driver(n).locked_uuids()]

    def driver(self, node, store=None):
        """Return the state of a node's simulated driver, the user's own or that of ``store``."""
        where = store or f"/tmp/joulelab-{self.uid}/driver"
        return DriverStore(Path(f"/proc/{self._pid(node)}/root{where}"))

    def processes(self):
        """Return the user's processes on the nodes, as ``node:name``."""
        spaces = {_pid_space(self._pid(node)): node for node in self.nodes}
        found = []
        for process in psutil.process_iter(["uids", "name", "pid"]):
            node = spaces.get(_pid_space(process.pid) or "gone")
            if node and process.info["uids"].real == self.uid:
                found.append(f"{node}:{process.info['name']}")
        return found

    @contextmanager
    def without_epilog(self):
        """Be a site whose administrator has not installed the epilog."""
        (self.folder / "no-epilog").touch()
        yield
        (self.folder / "no-epilog").unlink()

    def kill_user(self):
        """End all processes of the user on all nodes at once, as at a shortage of memory."""
        for node in self.nodes:
            self.on(node, f"pkill -KILL -u {self.uid} || true")

    def stop_guards_at_a_clock(self):
        """Stop the guards of the user's jobs at a moment when a clock is set: it stays set."""
        while True:
            self.until(self.locked, "a clock to be set")
            self._signal_guards("STOP")
            if self.locked():
                return
            self._signal_guards("CONT")

    def _signal_guards(self, signal):
        for node in self.nodes:
            self.on(node, f"pkill -{signal} -u {self.uid} -f joulelab.guard || true")

    @contextmanager
    def cut_off(self, node):
        """Take a node's network away for a while; it goes on without, and learns later of its job.

        A minute after it is back at the latest, nothing of a job that goes on without it is there.
        """
        link = f"ip link set v{node.removeprefix('n')}"
        self.on("login", f"{link} down")
        yield
        self.on("login", f"{link} up")
        self.until(lambda: not self._has_anything(node), f"{node} to be left", limit_s=60)

    def _has_anything(self, node):
        return any(each.startswith(f"{node}:") for each in self.processes() + self.locked())

    def cut_power(self, node):
        """End a node at once, and what its memory held: its /tmp and the clocks it had set."""
        os.kill(int((self.folder / "run" / f"{node}.launcher").read_text()), 9)

    def give_power(self, node):
        """Start a node again, and wait until SLURM may use it."""
        self._run([self.folder / "node_up.sh", node])
        self.await_idle(node)

    def await_idle(self, *nodes):
        """Wait until ``nodes`` are up and no job has them."""
        idle = f"sinfo -h -N -n {','.join(nodes)} -t idle -o %N"
        self.until(lambda: set(self.on("login", idle).split()) == set(nodes), f"{nodes} to be idle")

    def listen(self, node, port):
        """Start a program that has ``port`` of a node; the caller ends it."""
        code = f"import socket, time; s = socket.create_server(('', {port})); time.sleep(600)"
        space = ["nsenter", f"--net=/proc/{self._pid(node)}/ns/net"]
        return subprocess.Popen([*space, sys.executable, "-c", code])

    def _pid(self, node):
        return int((self.folder / "run" / f"{node}.pid").read_text())

    @staticmethod
    def _run(command, env=None):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, timeout=300
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def _pid_space(pid):
    """Return what processes of one node have in common; ``None`` if there is no such process."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
