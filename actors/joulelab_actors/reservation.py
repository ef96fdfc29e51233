"""GPUs for a study that no other one has: chosen, waited for, and kept for as long as it runs."""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray._private import state
from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put
from ray.util import list_named_actors

from joulelab.core.device import DeviceAddress
from joulelab.guard.inquiry import holders
from joulelab.study.gpu import by_product
from joulelab_actors.gpu_actor import NAME_TIMEOUT_S
from joulelab_actors.placement import Site, call_on
from joulelab_actors.session import NAMESPACE, answers

_LOOK_S = 1.0
_QUIET_S = 3.0  # a driver that was killed takes a moment to end, of which nobody need know
_SETTLE_S = 0.2
_ANSWER_S = 2.0

_log = logging.getLogger(__name__)


@contextmanager
def reserved(
    sites: Sequence[Site],
    num_gpus: int | None,
    *,
    study: str | None,
    guard_socket: Path | None,
    report: Callable[[str], None],
) -> Generator[tuple[Site, ...]]:
    """Yield GPUs that no other study has, which no other one takes before the block ends.

    They are ``num_gpus`` of each product, the first of ``sites``; ``None`` for all, and then
    without those that others keep for longer than a driver takes to end. While there are too few,
    it is waited for them, and ``report`` takes lines for the user on who has them. ``study`` is its
    name, if it has one yet; the nodes' clock guards listen at ``guard_socket``, ``None`` for each
    node's own.
    """
    keeper = Keeper(study)
    start_s, reported = time.monotonic(), ""
    try:
        while True:
            held = held_by_others(sites, guard_socket)
            waited_s = time.monotonic() - start_s
            least = num_gpus or (1 if waited_s > NAME_TIMEOUT_S else None)
            if chosen := keeper.keep(sites, held, num_gpus, least):
                break
            line = f"Waiting for GPUs: {_holder_words(sites, held)}."
            if line != reported and waited_s > _QUIET_S:
                reported = line
                report(line)
            time.sleep(_LOOK_S if waited_s > _QUIET_S else _SETTLE_S)
        if num_gpus is None and len(chosen) < len(sites):
            report(f"Left out: {_holder_words(sites, held)}.")
        yield chosen
    finally:
        keeper.release()


class Keeper:
    """Keeps GPUs for this driver in the cluster's table of keys, until they are let go.

    The name of an actor is the lock on its GPU; an entry here keeps it until there is the actor,
    and names the ``study`` for others who want it. One of a driver that has ended counts for
    nothing.
    """

    def __init__(self, study: str | None) -> None:
        self._job = ray.get_runtime_context().get_job_id()
        what = f"study {study}" if study else Path(sys.argv[0]).stem or "a study"
        self._entry = f"{self._job} {what} (pid {os.getpid()} on {socket.gethostname()})"
        self._kept: list[str] = []

    def keep(
        self, sites: Sequence[Site], held: Collection[str], num_gpus: int | None, least: int | None
    ) -> tuple[Site, ...]:
        """Keep GPUs of each product, of those that nobody else has; none if they are too few.

        They are the first of ``sites``, without the UUIDs that are ``held``: ``num_gpus`` of each
        product, ``None`` for all, and ``least`` of each to make do with, ``None`` for none less
        than all.
        """
        chosen: list[Site] = []
        for own in by_product(sites).values():
            kept: list[Site] = []
            for site in own:
                if len(kept) == (num_gpus or len(own)):
                    break
                if site.uuid not in held and self._take(site.uuid):
                    kept.append(site)
            if len(kept) < (least or len(own)):
                self.release()
                return ()
            chosen += kept
        return tuple(chosen)

    def release(self) -> None:
        """Let everything go, unless Ray has ended, which ends it all. Safe to call twice."""
        kept, self._kept = self._kept, []
        if not kept or not _head_answers():
            return
        for uuid in kept:
            if _entry_of(uuid) == self._entry:
                _internal_kv_del(_key(uuid))

    def _take(self, uuid: str) -> bool:
        stale = _entry_of(uuid)
        if stale is not None:
            if _job_of(stale) in _running_jobs():
                return False
            _internal_kv_del(_key(uuid))
        if _internal_kv_put(_key(uuid), self._entry.encode(), overwrite=False):
            return False  # another driver was faster
        if stale is not None:
            time.sleep(_SETTLE_S)  # whoever found it stale at the same moment has deleted it by now
            if _entry_of(uuid) != self._entry:
                return False
        self._kept.append(uuid)
        return True


def let_go(uuids: Collection[str]) -> None:
    """Let others have GPUs that this driver kept, before the block of :func:`reserved` ends."""
    if _head_answers():
        job = ray.get_runtime_context().get_job_id()
        for uuid in uuids:
            entry = _entry_of(uuid)
            if entry is not None and _job_of(entry) == job:
                _internal_kv_del(_key(uuid))


def held_by_others(sites: Sequence[Site], guard_socket: Path | None) -> dict[str, str]:
    """Return who has GPUs, by UUID: by what is kept, by actors, and by the guards of nodes."""
    held = _leases(sites, guard_socket)
    actors = list_named_actors(all_namespaces=True)
    names = {each["name"] for each in actors if each["namespace"] == NAMESPACE}
    running = _running_jobs()
    for site in sites:
        entry = _entry_of(site.uuid)
        if entry is not None and _job_of(entry) in running:
            held[site.uuid] = entry.partition(" ")[2]
        elif f"joulelab:{site.uuid}" in names:
            held.setdefault(site.uuid, "another study")
    return held


def _leases(sites: Sequence[Site], guard_socket: Path | None) -> dict[str, str]:
    """Ask every node who has its GPUs on loan; what does not answer is nobody's."""
    by_node: dict[str, list[DeviceAddress]] = {}
    for site in sites:
        by_node.setdefault(site.node_id, []).append(site.address)
    calls = [
        call_on(node_id, holders, (addresses, guard_socket))
        for node_id, addresses in by_node.items()
    ]
    found: dict[str, str] = {}
    for call in calls:
        try:
            found |= ray.get(call, timeout=NAME_TIMEOUT_S)
        except RayError as error:
            _log.info("A node did not say who has its GPUs on loan: %s", error)
    return found


def _head_answers() -> bool:
    """Look before asking: Ray waits a minute for a head that is gone, and ends this process."""
    return answers(ray.get_runtime_context().gcs_address, _ANSWER_S)


def _key(uuid: str) -> str:
    return f"joulelab:kept:{uuid}"


def _entry_of(uuid: str) -> str | None:
    entry: bytes | None = _internal_kv_get(_key(uuid))
    return None if entry is None else entry.decode()


def _job_of(entry: str) -> str:
    """Return the Ray job of the driver that made an entry."""
    return entry.partition(" ")[0]


def _running_jobs() -> set[str]:
    """Return the jobs whose driver has not ended."""
    jobs: list[dict[str, Any]] = state.jobs()  # type: ignore[no-untyped-call]
    return {job["JobID"] for job in jobs if not job["IsDead"]}


def _holder_words(sites: Sequence[Site], held: Mapping[str, str]) -> str:
    by_holder: dict[str, list[str]] = {}
    for site in sites:
        if site.uuid in held:
            by_holder.setdefault(held[site.uuid], []).append(f"{site.uuid} on {site.hostname}")
    return "; ".join(f"{who} has {' and '.join(gpus)}" for who, gpus in by_holder.items())
