"""Kill clients, guard and watchdog at random moments; count the clocks that stay locked.

    .venv/bin/python benchmarks/guard_kills.py --kills 200

Each round, clients hold locks on simulated GPUs, one of them perhaps in the middle of setting
its clock, and one process gets SIGKILL, or guard and watchdog, or all at once. The table tells how
long it took until every clock that the victim answered for was free again, after another guard was
started where none was left; of a watchdog, until there was another. Until then no GPU that is
locked may be measured.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

import psutil
import tyro
from figures import Figure

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated.store import DriverState, DriverStore
from joulelab.errors import GuardError
from joulelab.guard import GuardClient, GuardStatus, ensure_guard
from joulelab.guard.control import owed_on

Victim = Literal["client", "guard", "watchdog", "guard and watchdog", "everything"]

CLIENT = """
import sys
from pathlib import Path
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.errors import GuardError
from joulelab.guard.client import GuardClient
client = GuardClient(Path(sys.argv[1]))
address = DeviceAddress(backend="simulated", uuid=sys.argv[2], store=sys.argv[3])
lease = None
for line in sys.stdin:
    try:
        lease = lease or client.lease(address, "benchmark")
        lease.apply(OperatingPoint(sm_clock_mhz=int(line)))
        print("set", flush=True)
    except GuardError as error:
        if lease:
            lease.close()
            lease = None
        print("lost", flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How hard to try.

    Attributes:
        kills: Processes to kill.
        num_gpus: Simulated GPUs, each with a client of its own.
        applies: Clocks to set for the latency of one call.
        seed: Seed of the choice of victims and moments.
        json: Print one JSON object instead of a table.
    """

    kills: int = 200
    num_gpus: int = 3
    applies: int = 300
    seed: int = 1
    json: bool = False


@dataclass(slots=True)
class Client:
    """A process that sets a clock when told to."""

    gpu: DriverState
    socket_path: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-c", CLIENT, str(self.socket_path), self.gpu.uuid]
        self.process = subprocess.Popen(
            [*command, str(self.gpu.folder.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, clock_mhz: int) -> None:
        """Tell it to set a clock; do not wait."""
        assert self.process.stdin is not None  # noqa: S101
        self.process.stdin.write(f"{clock_mhz}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """Wait for what became of it."""
        assert self.process.stdout is not None  # noqa: S101
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        """Kill it, at the end of everything."""
        self.process.kill()
        self.process.communicate()


class Rounds:
    """Lock, kill, wait, count."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.random = random.Random(settings.seed)  # noqa: S311
        self.store = DriverStore(folder / "driver")
        self.gpus = [self.store.create("h200_sxm", i) for i in range(settings.num_gpus)]
        self.socket_path = folder / "guard.sock"
        self.guard = GuardClient(self.socket_path)
        self.clients = [Client(gpu, self.socket_path) for gpu in self.gpus]
        self.latencies_s: dict[str, list[float]] = defaultdict(list)
        self.num_measurable = 0
        """GPUs that were locked by nobody alive, and that would have been measured so."""

    def run(self, kills: int) -> None:
        """Kill ``kills`` times."""
        for _ in range(kills):
            self.lock_all()
            self.kill(self.random.choice(get_args(Victim)))

    def lock_all(self) -> None:
        """Have every client hold its clock."""
        waiting = list(self.clients)
        while waiting:
            for client in waiting:
                client.ask(self.random.choice(client.gpu.spec.sm_clocks_mhz))
            waiting = [client for client in waiting if client.hear() != "set"]
        until(lambda: len(self.store.locked_uuids()) == len(self.gpus))

    def kill(self, victim: Victim) -> None:
        """Kill ``victim``, and time the restore."""
        status, busy = self.status(), self.random.choice(self.clients)
        in_the_act = self.random.random() < 0.5
        if in_the_act:
            busy.ask(self.random.choice(busy.gpu.spec.sm_clocks_mhz))
            time.sleep(self.random.uniform(0.0, 0.004))
        pids = {
            "client": [busy.process.pid],
            "guard": [status.pid],
            "watchdog": [status.watchdog_pid],
            "guard and watchdog": [status.pid, status.watchdog_pid],
            "everything": [*(c.process.pid for c in self.clients), status.pid, status.watchdog_pid],
        }[victim]
        start_s = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.wait_for_restore(victim, busy, status)
        self.latencies_s[victim].append(time.monotonic() - start_s)
        self.settle(victim, busy, in_the_act=in_the_act)

    def wait_for_restore(self, victim: Victim, busy: Client, before: GuardStatus) -> None:
        """Wait until the clocks that ``victim`` answered for are free."""
        if victim == "client":
            until(lambda: busy.gpu.uuid not in self.store.locked_uuids())
        elif victim == "watchdog":
            until(lambda: self.status().watchdog_pid != before.watchdog_pid)
            if len(self.store.locked_uuids()) != len(self.gpus):
                raise GuardError("A lease was lost though only the watchdog was killed.")
        else:
            if victim in ("guard and watchdog", "everything"):
                self.count_measurable(before)
                ensure_guard(self.socket_path)
            until(lambda: not self.store.locked_uuids())

    def count_measurable(self, dead: GuardStatus) -> None:
        """Look which GPUs are locked, now that nobody sees to them, and whether one could tell."""
        until(lambda: not any(is_running(pid) for pid in (dead.pid, dead.watchdog_pid)))
        for uuid in self.store.locked_uuids():
            address = DeviceAddress(backend="simulated", uuid=uuid, store=str(self.store.root))
            self.num_measurable += owed_on(address, self.socket_path) is None

    def settle(self, victim: Victim, busy: Client, *, in_the_act: bool) -> None:
        """Start other clients in the place of victims, or hear the last of ``busy``."""
        if victim in ("client", "everything"):
            for client in [busy] if victim == "client" else self.clients:
                client.process.communicate()
                client.start()
        elif in_the_act:
            busy.hear()

    def status(self) -> GuardStatus:
        """Return the status of a guard with a watchdog, once there is one."""
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            with contextlib.suppress(GuardError):
                status = self.guard.status()
                if status.watchdog_pid is not None:
                    return status
        raise GuardError("No guard with a watchdog within 10 s.")

    def close(self) -> list[str]:
        """End the clients and the guard; return the GPUs on which a lock is left."""
        for client in self.clients:
            client.end()
        ensure_guard(self.socket_path)
        self.guard.stop()
        return list(self.store.locked_uuids())


def is_running(pid: int | None) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait for ``condition``."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"what a round waits for did not come within {timeout_s:g} s")
        time.sleep(0.0005)


def apply_latencies_s(guard: GuardClient, gpu: DriverState, applies: int) -> list[float]:
    """Set clocks through the guard and time each call."""
    address = DeviceAddress(backend="simulated", uuid=gpu.uuid, store=str(gpu.folder.parent))
    clocks_mhz = gpu.spec.sm_clocks_mhz
    latencies_s = []
    with guard.lease(address, "latency") as lease:
        for i in range(applies):
            start_s = time.monotonic()
            lease.apply(OperatingPoint(sm_clock_mhz=clocks_mhz[i % len(clocks_mhz)]))
            latencies_s.append(time.monotonic() - start_s)
    return latencies_s


def summary(latencies_s: list[float]) -> dict[str, float]:
    """Return the count, and quantiles in milliseconds."""
    ordered = sorted(latencies_s)
    p99_s = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return {
        "count": len(ordered),
        "p50_ms": 1000 * statistics.median(ordered),
        "p99_ms": 1000 * p99_s,
        "max_ms": 1000 * ordered[-1],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the rounds: times by victim, GPUs left locked or measurable while locked."""

    apply: dict[str, float]
    kills: dict[str, dict[str, float]]
    locks_left: list[str]
    num_measurable: int


def kill_at_random(settings: Settings) -> Outcome:
    """Run the rounds on a guard of their own."""
    with tempfile.TemporaryDirectory(prefix="jlg") as folder:
        rounds = Rounds(settings, Path(folder))
        try:
            apply_s = apply_latencies_s(rounds.guard, rounds.gpus[0], settings.applies)
            rounds.run(settings.kills)
        finally:
            left = rounds.close()
    kills = {name: summary(rounds.latencies_s[name]) for name in sorted(rounds.latencies_s)}
    return Outcome(
        apply=summary(apply_s), kills=kills, locks_left=left, num_measurable=rounds.num_measurable
    )


def figures() -> list[Figure]:
    """Return the figures that the project promises of its clock guard."""
    outcome = kill_at_random(Settings())
    guard = outcome.kills["guard"]
    how = f"{Settings().kills} random SIGKILLs on {Settings().num_gpus} simulated GPUs"
    apply = "through the guard, journal and read-back included; median"
    return [
        Figure(
            name="clocks left locked",
            measured=len(outcome.locks_left),
            promised=0,
            unit="",
            how=how,
        ),
        Figure(
            name="locked GPUs that could be measured before they were restored",
            measured=outcome.num_measurable,
            promised=0,
            unit="",
            how=how,
        ),
        Figure(
            name="guard killed to clocks free",
            measured=guard["p50_ms"],
            promised=1000,
            unit="ms",
            how=how,
        ),
        Figure(
            name="setting a clock",
            measured=outcome.apply["p50_ms"],
            promised=5,
            unit="ms",
            how=apply,
        ),
    ]


def main(settings: Settings) -> int:
    """Print what came of the rounds; 1 if a lock is left."""
    outcome = kill_at_random(settings)
    if settings.json:
        print(json.dumps(asdict(outcome)))
    else:
        show({"(apply, nobody killed)": outcome.apply, **outcome.kills})
        print(
            f"{settings.kills} kills, {len(outcome.locks_left)} locks left, "
            f"{outcome.num_measurable} measurable while locked"
        )
    return 1 if outcome.locks_left or outcome.num_measurable else 0


def show(rows: dict[str, dict[str, float]]) -> None:
    """Print a table."""
    print(f"{'killed':<24}{'times':>6}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for name, row in rows.items():
        print(
            f"{name:<24}{row['count']:>6}{row['p50_ms']:>10.1f}"
            f"{row['p99_ms']:>10.1f}{row['max_ms']:>10.1f}"
        )


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
