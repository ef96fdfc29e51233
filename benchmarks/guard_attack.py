"""Attack a clock guard in every way that a client can, and count what that costs the honest ones.

Usage: python benchmarks/guard_attack.py [--messages 100000] [--connections 10000]

While each attack is under way, an honest client borrows a simulated GPU, sets a clock and gives it
back, over and over. The guard must stay the same process, or for SIGSTOP be replaced; the honest
client must be served; and once the attacker is gone no clock may be locked.
"""

import contextlib
import json
import os
import random
import signal
import socket
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import tyro
from figures import Figure
from rich.console import Console
from rich.table import Table

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated.store import DriverStore
from joulelab.errors import GuardError
from joulelab.guard import GuardClient, ensure_guard
from joulelab.guard.protocol import encode

FREE_S = 5.0
"""Time after an attack by which nothing may be locked."""
HONEST_S = 0.05
CLOCKS_MHZ = (1005, 1095, 1200, 1410)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How hard to attack.

    Attributes:
        messages: Fuzzed messages.
        connections: Connections that are opened and say nothing.
        hang_ups: Times that a whole request is broken off at each of its bytes.
        seed: Seed of the fuzzing.
    """

    messages: int = 100_000
    connections: int = 10_000
    hang_ups: int = 20
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the guard is, and the GPU that attackers ask for."""

    socket_path: Path
    store: str
    uuid: str

    def link(self, timeout_s: float = 5.0) -> socket.socket:
        """Connect."""
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(self.socket_path))  # without a time limit, so that it waits for its turn
        link.settimeout(timeout_s)
        return link

    def lease(self) -> bytes:
        """Return a sound request for the GPU."""
        address = {"backend": "simulated", "uuid": self.uuid, "store": self.store}
        return encode({"do": "lease", "address": address, "note": "attack", "ttl_s": 5})


def fuzz(target: Target, settings: Settings) -> None:
    """Send messages that are none, or nearly one."""
    rng = random.Random(settings.seed)  # noqa: S311
    point = {"sm_clock_mhz": 1095}
    sound = [target.lease(), encode({"do": "apply", "point": point}), encode({"do": "status"})]
    link = target.link()
    for _ in range(settings.messages):
        with contextlib.suppress(OSError):
            link.sendall(mangled(rng, sound))
            if link.recv(65536):
                continue
        link.close()
        link = target.link()
    link.close()


def mangled(rng: random.Random, sound: list[bytes]) -> bytes:
    """Return a line that a guard must survive."""
    line = bytearray(rng.choice(sound))
    match rng.randrange(6):
        case 0:
            for _ in range(rng.randrange(1, 8)):
                line[rng.randrange(len(line) - 1)] = rng.randrange(256)
        case 1:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(200))) + b"\n"
        case 2:
            return (rng.choice(["[", '{"a":', "9", '"']) * rng.randrange(9000)).encode() + b"\n"
        case 3:
            message = json.loads(bytes(line))
            message[rng.choice(list(message))] = odd(rng)
            return json.dumps(message).encode() + b"\n"
        case 4:
            message = json.loads(bytes(line))
            message["point"] = {"sm_clock_mhz": odd(rng), "power_limit_w": odd(rng)}
            return json.dumps({**message, "do": "apply"}).encode() + b"\n"
        case _:
            pass
    return bytes(line)


def odd(rng: random.Random) -> object:
    """Return a value that nobody expects."""
    text = "".join(rng.choices(string.printable, k=rng.randrange(300)))
    values = [None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), [], {}, [[]], text]
    return rng.choice([*values, {"backend": text, "uuid": text}, "\x00", "../../etc", "\ud800"])


def hang_up(target: Target, settings: Settings) -> None:
    """Break off a request at each of its bytes, and after the last without hearing the answer."""
    lease = target.lease()
    for length in list(range(len(lease) + 1)) * settings.hang_ups:
        with contextlib.closing(target.link()) as link, contextlib.suppress(OSError):
            link.sendall(lease[:length])


def crowd(target: Target, settings: Settings) -> None:
    """Open connections and keep as many of them as this process may have."""
    held: list[socket.socket] = []
    for _ in range(settings.connections):
        held.append(target.link())
        if len(held) == 500:
            held.pop(0).close()


def dawdle(target: Target, settings: Settings) -> None:
    """Send requests a byte at a time on many connections, and never read an answer."""
    links = [target.link() for _ in range(200)]
    for byte in target.lease():
        for link in links:
            with contextlib.suppress(OSError):
                link.send(bytes([byte]))
        time.sleep(0.01)


def hold(target: Target, settings: Settings) -> None:
    """Borrow the GPU and lock it, over and over, and leave without a word."""
    for _ in range(200):
        with contextlib.suppress(OSError), contextlib.closing(target.link()) as link:
            link.sendall(target.lease())
            link.recv(65536)
            link.sendall(encode({"do": "apply", "point": {"sm_clock_mhz": 1005}}))
            link.recv(65536)


ATTACKS: dict[str, Callable[[Target, Settings], None]] = {
    "fuzzed messages": fuzz,
    "hang-ups at every byte": hang_up,
    "connections that say nothing": crowd,
    "clients that send a byte at a time": dawdle,
    "borrowers that vanish": hold,
}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What an attack did to the guard and to the honest client."""

    attack: str
    alive: bool = False
    locked: bool = True
    took_s: float = 0.0
    honest_s: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def p99_s(self) -> float:
        """What the honest client waited for one step, 99 % of the time at most."""
        return statistics.quantiles(self.honest_s, n=100)[-1]

    @property
    def withstood(self) -> bool:
        """Whether it cost nothing."""
        return self.alive and not self.locked and not self.refused and self.p99_s <= HONEST_S


class Field:
    """A guard with a GPU for the honest client, and one for the attackers."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.store = DriverStore(folder / "driver")
        self.honest, prey = (self.store.create("h200_sxm", i) for i in range(2))
        self.guard = GuardClient(folder / "guard.sock")
        self.target = Target(
            socket_path=self.guard.socket_path, store=str(self.store.root), uuid=prey.uuid
        )
        ensure_guard(self.guard.socket_path)

    def attacked(self, name: str) -> Outcome:
        """Let one attack go on while the honest client works."""
        before, start_s = self.guard.status().pid, time.monotonic()
        attacker = get_context("fork").Process(
            target=ATTACKS[name], args=(self.target, self.settings)
        )
        attacker.start()
        outcome = Outcome(attack=name)
        while attacker.is_alive() or len(outcome.honest_s) < 100:
            self.work(outcome)
        outcome.took_s = time.monotonic() - start_s
        outcome.alive = attacker.exitcode == 0 and self.guard.status().pid == before
        outcome.locked = not self.is_free()
        return outcome

    def stopped(self) -> Outcome:
        """Stop the guard while a study has a lock, and kill the study."""
        address = DeviceAddress(backend="simulated", uuid=self.target.uuid, store=self.target.store)
        study = get_context("fork").Process(target=self.study, args=(address,))
        study.start()
        while self.target.uuid not in self.store.locked_uuids():
            time.sleep(0.01)
        start_s, before = time.monotonic(), self.guard.status().pid
        os.kill(before, signal.SIGSTOP)
        study.kill()
        free = self.is_free()
        took_s = time.monotonic() - start_s
        outcome = Outcome(attack="guard stopped, study killed", locked=not free, took_s=took_s)
        while len(outcome.honest_s) < 100:
            self.work(outcome)
        outcome.alive = self.guard.status().pid != before
        return outcome

    def study(self, address: DeviceAddress) -> None:
        """Hold a lock until killed."""
        with self.guard.lease(address, "study") as lease:
            lease.apply(OperatingPoint(sm_clock_mhz=1005))
            time.sleep(60)

    def work(self, outcome: Outcome) -> None:
        """Borrow, set, and give back, each step timed."""
        address = DeviceAddress(
            backend="simulated", uuid=self.honest.uuid, store=str(self.store.root)
        )
        clock_mhz = CLOCKS_MHZ[len(outcome.honest_s) % len(CLOCKS_MHZ)]
        try:
            times_s = [time.monotonic()]
            lease = self.guard.lease(address, "honest")
            times_s.append(time.monotonic())
            lease.apply(OperatingPoint(sm_clock_mhz=clock_mhz))
            times_s.append(time.monotonic())
            lease.close()
            times_s.append(time.monotonic())
        except GuardError:
            outcome.refused += 1
        outcome.honest_s += [b - a for a, b in pairwise(times_s)]

    def is_free(self) -> bool:
        """Whether nothing is locked within the time that there is for it."""
        deadline_s = time.monotonic() + FREE_S
        while self.store.locked_uuids() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return not self.store.locked_uuids()


def attack(settings: Settings) -> list[Outcome]:
    """Make every attack on one guard."""
    with tempfile.TemporaryDirectory(prefix="jla") as folder:
        ground = Field(Path(folder), settings)
        try:
            outcomes = [ground.attacked(name) for name in ATTACKS]
            return [*outcomes, ground.stopped()]
        finally:
            ensure_guard(ground.guard.socket_path)
            ground.guard.stop()


def figures() -> list[Figure]:
    """Return the figures that the project promises of a guard under attack."""
    outcomes = attack(Settings())
    how = f"{len(outcomes)} attacks, {Settings().messages} fuzzed messages among them"
    counts = {
        "guards that an attack ended": sum(not outcome.alive for outcome in outcomes),
        "attacks that left a lock for 5 s": sum(outcome.locked for outcome in outcomes),
        "honest requests refused": sum(outcome.refused for outcome in outcomes),
    }
    worst_s = max(outcome.p99_s for outcome in outcomes)
    return [
        *(Figure(name=n, measured=c, promised=0, unit="", how=how) for n, c in counts.items()),
        Figure(
            name="an honest client waits", measured=1e3 * worst_s, promised=1e3 * HONEST_S,
            unit="ms", how=f"p99 of a step, worst of {how}",
        ),
    ]  # fmt: skip


def main(settings: Settings) -> int:
    """Print what each attack did; 1 if one did anything."""
    columns = ("attack", "took s", "guard", "locks after 5 s", "refused", "p50 ms", "p99", "max")
    table = Table(*columns)
    outcomes = attack(settings)
    for outcome in outcomes:
        ordered_ms = sorted(1e3 * step_s for step_s in outcome.honest_s)
        table.add_row(
            outcome.attack,
            f"{outcome.took_s:.1f}",
            "alive" if outcome.alive else "DEAD",
            "LEFT" if outcome.locked else "none",
            str(outcome.refused),
            f"{statistics.median(ordered_ms):.1f}",
            f"{1e3 * outcome.p99_s:.1f}",
            f"{ordered_ms[-1]:.1f}",
        )
    Console().print(table)
    return int(not all(outcome.withstood for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
