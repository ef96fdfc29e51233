"""One actor per GPU, the only process that measures on it, and the driver's end of it."""

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayTaskError

from joulelab.core.device import DeviceAddress, DeviceIdentity
from joulelab.core.trial import Trial
from joulelab.errors import DeviceError, JouleLabError
from joulelab.sampling.cuda_device import is_same, seen_uuids
from joulelab.study.worker import FoundT, GpuWorker, Report, WorkerSettings
from joulelab_actors.node_facts import code_version
from joulelab_actors.placement import Site
from joulelab_actors.session import NAMESPACE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What an actor that is ready to measure says about itself and the code that it runs."""

    identity: DeviceIdentity
    hostname: str
    pid: int
    writer: str
    code_version: str


class ActorReplacedError(DeviceError):
    """A trial was given to a process that had died by then; nothing was measured."""


class GpuActor:
    """Owns one device for its life, or one and its partners; measures one trial at a time.

    The class is plain: :mod:`joulelab_actors.pool` puts it on the cluster. Making one opens
    nothing, so that what is wrong with a device is said by :meth:`ready`, as the error it is.
    """

    def __init__(
        self,
        address: DeviceAddress,
        settings: WorkerSettings,
        partners: Sequence[DeviceAddress] = (),
    ) -> None:
        self._worker = GpuWorker(address, settings, partners=partners, check=require_cuda_sees_only)

    @ray.method(concurrency_group="measure", max_task_retries=-1)
    def ready(self) -> Readiness:
        """Open the device, if need be, as :meth:`GpuWorker.open` does; say what this actor is."""
        return Readiness(
            identity=self._worker.open(),
            hostname=socket.gethostname(),
            pid=os.getpid(),
            writer=self._worker.writer,
            code_version=code_version(),
        )

    @ray.method(concurrency_group="measure")
    def measure(self, trial: Trial, pid: int) -> Report:
        """Measure ``trial`` as :meth:`GpuWorker.measure` does.

        ``pid`` is the process that said that it is ready. A call that reaches Ray after its death
        waits for the next process, where the driver has planned the trial again by then. Raises
        ActorReplacedError if it is not this process.
        """
        if pid != os.getpid():
            raise ActorReplacedError(f"process {pid} was replaced before it began the trial")
        return self._worker.measure(trial)

    @ray.method(concurrency_group="measure")
    def do(self, work: Callable[[GpuWorker], FoundT]) -> FoundT:
        """Return what ``work`` does of the worker."""
        return work(self._worker)

    @ray.method(concurrency_group="control")
    def expect(self, trial: Trial) -> None:
        """Note what is measured after the present trial, to read ahead for it."""
        self._worker.expect(trial)

    @ray.method(concurrency_group="control")
    def abandon(self) -> None:
        """Store nothing from now on: whoever hears so can read the store for the last time."""
        self._worker.abandon()

    @ray.method(concurrency_group="measure")
    def close(self) -> None:
        """Give the device back at its former settings. Safe to call twice."""
        self._worker.close()


READY_TIMEOUT_S = 180.0
"""Longest wait for an actor to start and open its device."""


class Member:
    """A GPU's actor, its trials in order, and the question whether it is ready, if one is open.

    Raises ValueError if the GPU has an actor already; Ray's answer to a name that is taken.
    """

    def __init__(self, site: Site, settings: WorkerSettings) -> None:
        self.site = site
        self.readiness: Readiness | None = None
        self.work: deque[tuple[Any, Trial]] = deque()
        self.probe: Any = None
        self._handle = _start_actor(site, settings)
        self._probe_deadline_s = 0.0
        self.look()

    @property
    def uuid(self) -> str:
        """UUID of the GPU."""
        return self.site.uuid

    @property
    def awaited(self) -> Any:
        """The call whose end is the next news of this member; ``None`` if it has nothing to do."""
        if self.probe is not None:
            return self.probe
        return self.work[0][0] if self.work else None

    @property
    def is_overdue(self) -> bool:
        """Whether it should have been ready by now."""
        return self.probe is not None and time.monotonic() > self._probe_deadline_s

    def look(self) -> None:
        """Ask the actor whether it is ready; Ray keeps the question across restarts."""
        self.probe = self._handle.ready.remote()
        self._probe_deadline_s = time.monotonic() + READY_TIMEOUT_S

    def give(self, trial: Trial) -> None:
        """Give the actor a trial, to be done after those that it has."""
        if self.readiness is None:
            raise ValueError(f"{self.uuid} is given {trial.name} before it is ready.")
        if self.work and self.work[-1][1].configuration.program != trial.configuration.program:
            self._handle.expect.remote(trial)
        self.work.append((self._handle.measure.remote(trial, self.readiness.pid), trial))

    def do(self, work: Callable[[GpuWorker], FoundT]) -> FoundT:
        """Wait until the actor is ready, and return what ``work`` does of its worker.

        Raises what that raises, a JouleLabError.
        """
        try:
            self.readiness, self.probe = ray.get(self.probe), None
            found: FoundT = ray.get(self._handle.do.remote(work))
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, JouleLabError) else error from None
        return found

    def release(self) -> Any:
        """Ask the actor to give its device back, or if it is busy, to store nothing more.

        Returns the call; ``None`` if the actor was never ready.
        """
        if self.readiness is None:
            return None
        return self._handle.abandon.remote() if self.work else self._handle.close.remote()

    def kill(self) -> None:
        """End the actor; the clock guard restores what its lease had set."""
        if self.probe is not None:
            ray.cancel(self.probe)  # else Ray prints that it will ask again
        self.probe = self.readiness = None
        ray.kill(self._handle)


NAME_TIMEOUT_S = 15.0
"""Longest wait for a GPU whose actor may be about to end."""


def enlisted(site: Site, settings: WorkerSettings, deadline_s: float) -> Member:
    """Start the actor of a GPU; one of a driver that was just killed takes a moment to end.

    It is waited for until ``deadline_s`` on the monotonic clock. Raises DeviceError if another
    study has the GPU.
    """
    while True:
        try:
            return Member(site, settings)
        except ValueError as error:  # Ray's answer to a name that is taken
            if time.monotonic() > deadline_s:
                _log.info("Cannot start the actor of %s: %s", site.uuid, error)
                raise DeviceError(
                    f"{site.uuid} on {site.hostname} is taken by another study; wait for it to "
                    "end, or leave this GPU out."
                ) from error
            time.sleep(0.2)


def words_of(error: Exception) -> str:
    """Return what went wrong in one line, without the frames of another process."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    first = str(cause).strip().partition("\n")[0]
    return first if isinstance(cause, JouleLabError) else f"{type(cause).__name__}: {first}"


def _start_actor(site: Site, settings: WorkerSettings) -> Any:
    make_remote: Any = ray.remote
    remote = make_remote(concurrency_groups={"measure": 1, "control": 2})(GpuActor)
    options = site.actor_options() | {
        "name": f"joulelab:{site.uuid}",
        "namespace": NAMESPACE,
        "max_restarts": -1,
        "max_task_retries": 0,
    }
    return remote.options(**options).remote(site.address, settings, site.partners)


def require_cuda_sees_only(uuid: str) -> None:
    """Check that this process computes on the GPU ``uuid`` and can reach no other.

    CUDA and NVML count GPUs in orders of their own, and a scheduler may hand out one while the
    sensors of another are read; the UUID is the same to both. Raises DeviceError if CUDA sees
    another GPU, several, or none.
    """
    seen = seen_uuids()
    if len(seen) != 1 or not is_same(seen[0], uuid):
        raise DeviceError(
            f"CUDA must see {uuid} and nothing else, but it sees {', '.join(seen) or 'no GPU'}; "
            "start the process with CUDA_VISIBLE_DEVICES set to that UUID, and with a PyTorch "
            "that was built for CUDA."
        )
