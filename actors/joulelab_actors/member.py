"""One GPU of a pool: its actor, and what that has to do."""

import time
from collections import deque
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from joulelab.core.trial import Trial
from joulelab.errors import JouleLabError
from joulelab_actors.gpu_actor import ActorSettings, GpuActor, Readiness
from joulelab_actors.placement import Site
from joulelab_actors.session import NAMESPACE

READY_TIMEOUT_S = 180.0
"""Longest wait for an actor to start and open its device."""


class Member:
    """A GPU's actor, its trials in order, and the question whether it is ready, if one is open.

    Args:
        site: The GPU.
        settings: How its actor measures.

    Raises:
        ValueError: If the GPU has an actor already; Ray's answer to a name that is taken.
    """

    def __init__(self, site: Site, settings: ActorSettings) -> None:
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
        self.work.append((self._handle.measure.remote(trial), trial))

    def release(self) -> Any:
        """Ask the actor to give its device back, or if it is busy, to store nothing more.

        Returns:
            The call; ``None`` if the actor was never ready.
        """
        if self.readiness is None:
            return None
        return self._handle.abandon.remote() if self.work else self._handle.close.remote()

    def kill(self) -> None:
        """End the actor; the clock guard restores what its lease had set."""
        self.probe = self.readiness = None
        ray.kill(self._handle)


def said(error: RayError) -> str:
    """Return what went wrong in one line, without the frames of another process."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    first = str(cause).strip().partition("\n")[0]
    return first if isinstance(cause, JouleLabError) else f"{type(cause).__name__}: {first}"


def _start_actor(site: Site, settings: ActorSettings) -> Any:
    make_remote: Any = ray.remote
    remote = make_remote(concurrency_groups={"measure": 1, "control": 2})(GpuActor)
    options = site.actor_options() | {
        "name": f"joulelab:{site.uuid}",
        "namespace": NAMESPACE,
        "max_restarts": -1,
        "max_task_retries": 0,
    }
    return remote.options(**options).remote(site.address, settings)
