#!/usr/bin/env python
"""What the driver of a study does for a trial on up to 1,024 GPUs, and where it saturates.

Usage: python benchmarks/thousand_gpus.py [--gpus 16 64 256 1024] [--trial-s 20]

Schedule, pool, ledger and progress are those of studies; Ray and the actors are made up, in a time
of their own: a GPU answers so many seconds after it was given a trial, and what was measured is in
the store by then. A sweep has 24 trials for each GPU. What Ray takes to wait for one of so many
calls is measured on a Ray of its own, and the driver's processor time for a trial is both; one core
is used up at ``trial_s`` over that.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import ray
import tyro
from figures import Figure, print_figures
from tracking_cost import record_of

from joulelab import Configuration, OperatingPoint
from joulelab.core.device import DeviceAddress
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore
from joulelab.hardware.catalogue import GPUS
from joulelab.study.gpu import StudyGpu
from joulelab.study.run import StudySetup, run_trials
from joulelab.study.worker import Report, WorkerSettings
from joulelab_actors import pool
from joulelab_actors.gpu_actor import Member, Readiness
from joulelab_actors.node_facts import code_version
from joulelab_actors.placement import Site
from joulelab_actors.session import connected

GPU = "h200_sxm"
TRIALS_PER_GPU = 24
GPUS_PER_NODE = 8
NUM_WAITS = 200
WRITER = "made-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        gpus: Numbers of GPUs.
        trial_s: What a trial takes a GPU.
    """

    gpus: tuple[int, ...] = (16, 64, 256, 1024)
    trial_s: float = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of an actor, with an answer from a moment on."""

    due_s: float
    answer: Any


class MadeUpRay:
    """Lets time pass until the next call is answered; its own processor time is noted apart."""

    def __init__(self, trial_s: float) -> None:
        self.now_s = self.own_s = 0.0
        self._trial_s = trial_s
        self._record = record_of("made-up")

    def wait(
        self, calls: Sequence[Call], *, num_returns: int, timeout: float
    ) -> tuple[list[Call], list[Call]]:
        """Return the call that is answered first."""
        start_s = time.thread_time()
        first = min(calls, key=lambda call: call.due_s)
        self.now_s = max(self.now_s, first.due_s)
        self.own_s += time.thread_time() - start_s
        return [first], []

    def get(self, call: Call) -> Any:
        """Return the answer of a call."""
        return call.answer

    def measured(self, trial: Trial, uuid: str, after_s: float) -> Call:
        """Return the call of a trial that a GPU begins once another ends."""
        start_s = time.thread_time()
        first = self._record.measurement
        measurement = replace(
            first,
            measurement_id=f"{trial.name}-0",
            study=trial.study,
            trial=trial.name,
            configuration=trial.configuration,
            device=replace(first.device, uuid=uuid),
        )
        record = replace(self._record, measurement=measurement, trace=None)
        report = Report(records=(record,), writer=WRITER, between_s=0.1)
        spread = 0.9 + 0.2 * (crc32(trial.name.encode()) % 997) / 997
        call = Call(max(self.now_s, after_s) + spread * self._trial_s, report)
        self.own_s += time.thread_time() - start_s
        return call


class MadeUpMember(Member):
    """A GPU whose actor is made up, ready at once."""

    def __init__(self, site: Site, made_up: MadeUpRay) -> None:
        self._made_up, self._free_s = made_up, 0.0
        with patch("joulelab_actors.gpu_actor._start_actor", return_value=None):
            super().__init__(site, WorkerSettings(results_dir=Path()))

    def look(self) -> None:
        """Be ready."""
        self._probe_deadline_s = float("inf")
        self.probe = Call(
            0.0,
            Readiness(
                identity=self.site.identity,
                hostname=self.site.hostname,
                pid=1,
                writer=WRITER,
                code_version=code_version(),
            ),
        )

    def give(self, trial: Trial) -> None:
        """Measure a trial after those that are here."""
        call = self._made_up.measured(trial, self.uuid, self._free_s)
        self._free_s = call.due_s
        self.work.append((call, trial))

    def release(self) -> None:
        """Have nothing to give back."""

    def kill(self) -> None:
        """End."""


def sites(num_gpus: int, folder: Path) -> tuple[Site, ...]:
    """Return GPUs of nodes with eight each, all of the capabilities of a simulated one."""
    board = DriverStore(folder / "driver").create(GPU, 0)
    one = StudyGpu.of(
        DeviceAddress(backend="simulated", uuid=board.uuid, store=str(board.folder.parent))
    )
    return tuple(
        Site(
            address=replace(one.address, uuid=f"GPU-{number}"),
            identity=replace(one.identity, uuid=f"GPU-{number}"),
            capabilities=one.capabilities,
            hostname=f"n{number // GPUS_PER_NODE}",
            node_id=f"n{number // GPUS_PER_NODE}",
        )
        for number in range(num_gpus)
    )


def plan(num_trials: int) -> tuple[Trial, ...]:
    """Return a sweep of that many trials."""
    clocks = GPUS[GPU].study_clocks_mhz
    return tuple(
        Trial(
            study="thousand",
            name=f"{clocks[number % len(clocks)]}MHz-r{number}",
            configuration=Configuration.of(
                "gemm", {}, OperatingPoint(sm_clock_mhz=clocks[number % len(clocks)])
            ),
            repeat=number,
        )
        for number in range(num_trials)
    )


def driver_s(num_gpus: int, trial_s: float) -> float:
    """Return the driver's processor time for a trial of a sweep, that of Ray left out."""
    made_up, trials = MadeUpRay(trial_s), plan(TRIALS_PER_GPU * num_gpus)
    with tempfile.TemporaryDirectory(prefix="jl-") as name:
        gpus = sites(num_gpus, folder := Path(name))
        (stored := folder / "measurements").mkdir()
        (stored / f"{WRITER}.jsonl").touch()  # what actors write, the driver need not
        how = WorkerSettings(results_dir=folder)
        setup = StudySetup(gpus=gpus, folder=folder, make_pool=lambda: pool.Pool(gpus, how))
        with (
            patch.object(pool, "ray", made_up),
            patch.object(pool, "enlisted", lambda site, *_: MadeUpMember(site, made_up)),
        ):
            start_s = time.process_time()
            summary = run_trials(trials, setup)
            busy_s = time.process_time() - start_s - made_up.own_s
    if summary.num_valid != len(trials):
        raise SystemExit(f"{summary.num_valid} of {len(trials)} trials were measured.")
    return busy_s / len(trials)


class Waiting:
    """An actor with calls that do not end, and some that do."""

    async def hold(self) -> None:
        """Never answer."""
        import asyncio

        await asyncio.sleep(1e6)

    async def answer(self) -> None:
        """Answer at once."""


def wait_s(nums: Sequence[int]) -> Iterator[float]:
    """Yield this process's time to wait for one of so many calls of Ray's."""
    make_remote: Any = ray.remote
    actor = make_remote(Waiting).options(num_cpus=0, max_concurrency=2 * max(nums)).remote()
    held: list[Any] = []
    for num in nums:
        held += [actor.hold.remote() for _ in range(num - 1 - len(held))]
        ray.get(actor.answer.remote())
        start_s = time.process_time()
        for _ in range(NUM_WAITS):
            ray.wait([*held, actor.answer.remote()], num_returns=1, timeout=60)
        yield (time.process_time() - start_s) / NUM_WAITS


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the driver's processor time for a trial, and the share of a core that it takes."""
    settings = settings or Settings()
    with connected(num_cpus=1):
        waits_s = list(wait_s(settings.gpus))
    found = []
    for num_gpus, ray_s in zip(settings.gpus, waits_s, strict=True):
        own_s = driver_s(num_gpus, settings.trial_s)
        rate = num_gpus / settings.trial_s
        found.append(
            Figure(
                name=f"the driver's share of a core with {num_gpus} GPUs",
                measured=rate * (own_s + ray_s),
                promised=1.0,
                unit="",
                how=f"{rate:.1f} trials/s; {1e3 * own_s:.2f} ms a trial for schedule, pool, ledger "
                f"and progress, {1e3 * ray_s:.2f} ms for Ray's wait; simulated, "
                f"{TRIALS_PER_GPU} trials of {settings.trial_s:g} s for each GPU",
            )
        )
    return found


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
