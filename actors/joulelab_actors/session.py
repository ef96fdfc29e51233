"""Connect to a Ray cluster, or start one here for a while; and end with it if it dies."""

import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray._private import parameter, ray_constants, worker

from joulelab.errors import ConfigError, DeviceError, JouleLabError, one_line
from joulelab.tracking.addresses import discreet

NAMESPACE = "joulelab"
"""All pools share it, so that the name of an actor is a lock on its GPU across the cluster."""

_OBJECT_STORE_B = 128 * 1024 * 1024
_PATIENCE_S = 10
_HOST_AND_PORT = re.compile(r"\[?[\w.:-]+\]?:\d+")


@contextmanager
def connected(*, num_cpus: int | None = None, dashboard: bool = False) -> Generator[None]:
    """Hold a connection to Ray for the length of a ``with`` block.

    In a Ray job, or where ``RAY_ADDRESS`` says so, it is the cluster's. Elsewhere a Ray is started
    here and ended at the end, with a token of its own, so that nobody else on the machine can use
    it. A connection that exists already is used and left as it is. ``num_cpus``, by default those
    of the machine, and ``dashboard``, on this machine alone, are of a Ray that is started here.
    Raises DeviceError if no Ray could be joined or started.
    """
    if ray.is_initialized():
        yield
        return
    # Ray would print what calls raise that an interrupted study leaves behind, with tracebacks.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    try:
        if os.environ.get("RAY_ADDRESS"):
            _join()
        else:
            _start_local(num_cpus, dashboard)
        yield
    finally:
        ray.shutdown()


@contextmanager
def on_loopback() -> Generator[None]:
    """Let a Ray that only this machine may use listen on the loopback interface alone.

    Whatever it is given, Ray puts the machine's address in its network for 127.0.0.1 otherwise.
    """
    usual, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = usual


@contextmanager
def _unwatched(*, demand: bool) -> Generator[None]:
    """Leave out what reads all of Ray's logs ten times a second beside the measurements.

    Nobody listens to it, nor, unless there is a dashboard, to what watches the ``demand``.
    """
    usual: Any = parameter.RayParams
    lean: Any = partial(usual, include_log_monitor=False, no_monitor=not demand)
    parameter.RayParams = lean  # type: ignore[misc]
    try:
        yield
    finally:
        parameter.RayParams = usual  # type: ignore[misc]


def first_line(error: Exception) -> str:
    """Return the first line of what Ray says, as a sentence."""
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"{line.rstrip('.')}."


def failure_in_words(error: ray.exceptions.RayError) -> str:
    """Say in one line what a call raised, or what became of its process."""
    if not isinstance(error, ray.exceptions.RayTaskError):
        return first_line(error)
    cause = error.cause or error
    message = one_line(cause)
    return message if isinstance(cause, JouleLabError) else f"{type(cause).__name__}: {message}"


def require_cluster(option: str) -> None:
    """Raise ConfigError unless there is a cluster for what an option asks."""
    if not (ray.is_initialized() or os.environ.get("RAY_ADDRESS")):
        raise ConfigError(
            f"{option} is for the Ray cluster that RAY_ADDRESS names, which is not set; start "
            f"one (cluster/ray_node.sh) and run `. cluster/env.sh`, or leave {option} out."
        )


def answers(address: str, timeout_s: float) -> bool:
    """Return whether somebody listens at ``"host:port"``."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
            return True
    except (OSError, ValueError):  # ValueError: no number for a port
        return False


def _join() -> None:
    address = os.environ["RAY_ADDRESS"]
    advice = (
        "Start the cluster (cluster/ray_node.sh), or unset RAY_ADDRESS to start a Ray of your own."
    )
    # Ray itself would try for minutes, and say so on the terminal.
    if _HOST_AND_PORT.fullmatch(address) and not answers(address, _PATIENCE_S):
        raise DeviceError(f"No Ray answers at RAY_ADDRESS={address}. {advice}")
    is_ours = address.startswith("127.0.0.1:")  # one that another process started below
    try:
        with on_loopback() if is_ours else nullcontext():
            ray.init(
                address="auto",
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
    except Exception as error:  # what Ray raises here has no class of its own
        raise DeviceError(
            f"No Ray can be joined at RAY_ADDRESS={address}: {first_line(error)} {advice}"
        ) from error


LEAN = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's workers give way to every other process of the machine (niceness 15); a program that is
    # measured must not.
    "RAY_worker_niceness": "0",
    # Ray starts a process for every core of the machine at once, of which a study needs a few.
    "RAY_prestart_worker_first_driver": "0",
    # And it keeps as many that have nothing to do, of 70 MB each.
    "RAY_num_workers_soft_limit": "0",
    # Nobody reads Ray's metrics, and anybody on the network could.
    "RAY_enable_metrics_collection": "0",
}
"""Environment of a Ray that is started on this machine, as ``cluster/env.sh`` has it for nodes."""


def _start_local(num_cpus: int | None, dashboard: bool) -> None:
    # Ray would announce at every start that it uses a token.
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
    for name, value in LEAN.items():
        os.environ.setdefault(name, value)
    # Without a token in the environment Ray writes a world-readable one into the home folder,
    # which then turns authentication on for clusters that know nothing of it. Ray keeps the
    # first token for the life of the process, and so does the environment.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        with on_loopback(), _unwatched(demand=dashboard):
            context = ray.init(
                address="local",
                namespace=NAMESPACE,
                num_cpus=num_cpus,
                include_dashboard=dashboard,
                log_to_driver=False,
                logging_level=logging.WARNING,
                object_store_memory=_OBJECT_STORE_B,
            )
    except Exception as error:  # a start that takes too long is a bare Exception
        logs = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray")  # noqa: S108 - Ray's place
        raise DeviceError(
            f"Ray could not be started on this machine: {first_line(error)} See what keeps it "
            f"(load, memory, a full disk; its logs are under {logs}), and try again."
        ) from error
    if dashboard:
        _show_dashboard(context.dashboard_url)


def _show_dashboard(url: str | None) -> None:
    """Say where the dashboard is, and its token where nobody but the user reads it."""
    if not url:
        sys.stderr.write("Ray's dashboard could not be started; the rest goes on.\n")
        return
    token = os.environ["RAY_AUTH_TOKEN"] if sys.stderr.isatty() else "that of RAY_AUTH_TOKEN"
    sys.stderr.write(f"Ray's dashboard: http://{url} (token: {token})\n")


DIED = 1
_VITAL = ("gcs_server", "raylet")
_LOOK_S = 0.5
_HEAD_PATIENCE_S = 30.0
"""After 60 s without its head Ray ends the process by itself, without a word about the results."""


class Lifeline(AbstractContextManager["Lifeline"]):
    """Watches over Ray from a thread of its own while a study runs, which its last line names.

    Whatever waits for a Ray that is gone waits for ever, or is ended by Ray's own library from
    within. So this ends the process first: results are durable, and leases of clocks end with the
    processes that hold them.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="joulelab-lifeline", daemon=True)

    def __enter__(self) -> "Lifeline":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        node: Any = worker._global_node  # noqa: SLF001 - Ray tells nowhere else what it started
        own = [info.process for name in _VITAL for info in node.all_processes.get(name, ())]
        address = ray.get_runtime_context().gcs_address
        answered_s = time.monotonic()
        while not self._over.wait(_LOOK_S if own else _HEAD_PATIENCE_S / 6):
            if any(process.poll() is not None for process in own):
                self._end("one of its processes was killed or crashed", node)
            if own or answers(address, _HEAD_PATIENCE_S / 6):
                answered_s = time.monotonic()
            elif time.monotonic() - answered_s > _HEAD_PATIENCE_S:
                self._end(
                    f"its head at {address} has not answered for {_HEAD_PATIENCE_S:g} s", node
                )

    def _end(self, why: str, node: Any) -> None:
        shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a moving bar hides the cursor
        sys.stderr.write(
            f"{shown}{Path(sys.argv[0]).stem}: Ray is gone: {why}. All that was measured is kept; "
            f"start the same command again with --study {discreet(self._study)} to go on.\n"
        )
        sys.stderr.flush()
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        os._exit(DIED)
