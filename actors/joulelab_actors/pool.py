"""The GPUs of a study: keeps each busy, and goes on when one fails."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from typing_extensions import override

from joulelab.core.trial import Trial
from joulelab.errors import DeviceError, TrackingError
from joulelab.study.events import (
    AttemptFailed,
    DeviceQuarantined,
    DeviceReady,
    PoolEvent,
    TrialStarted,
)
from joulelab.study.pool import WorkerPool
from joulelab.study.resume import stored_records
from joulelab.study.schedule import after_failing, after_measuring, struck
from joulelab.study.worker import Report, WorkerSettings
from joulelab.tracking.store import ResultStore
from joulelab_actors.gpu_actor import (
    NAME_TIMEOUT_S,
    READY_TIMEOUT_S,
    ActorReplacedError,
    Member,
    Readiness,
    enlisted,
    words_of,
)
from joulelab_actors.node_facts import code_version
from joulelab_actors.placement import Site

_AHEAD = 2  # one trial under way and one waiting, so that a GPU never waits for the driver
_LOOK_S = 1.0
RELEASE_S = 5.0
"""Longest wait for actors to give their devices back."""


class Pool(WorkerPool):
    """One actor per GPU, for as long as the pool is open."""

    def __init__(self, sites: Sequence[Site], settings: WorkerSettings) -> None:
        super().__init__(sites)
        self._store = ResultStore(settings.results_dir)
        self._members: dict[str, Member] = {}
        self._out_of_service: dict[str, str] = {}
        deadline_s = time.monotonic() + NAME_TIMEOUT_S
        for site in sites:
            try:
                self._members[site.uuid] = enlisted(site, settings, deadline_s)
            except DeviceError as error:
                self._out_of_service[site.uuid] = str(error)

    @property
    @override
    def _uuids(self) -> Collection[str]:
        return self._members

    @override
    def _measure(self, must_stop: Callable[[], bool]) -> Iterator[PoolEvent]:
        for uuid, detail in self._out_of_service.items():
            yield DeviceQuarantined(uuid=uuid, detail=detail)
        while not must_stop() and self._has_more:
            yield from self._hand_out()
            members, news = self._in_service(), self._source.news
            awaited = {m.awaited: m for m in members if m.awaited is not None}
            refs = [*awaited, *([] if news is None else [news])]
            if not members or not refs:
                return
            done, _ = ray.wait(refs, num_returns=1, timeout=_LOOK_S)
            for ref in done:
                if ref is news:
                    self._source.hear()
                else:
                    yield from self._settle(awaited[ref])
            yield from self._expire()

    @override
    def close(self) -> None:
        """End the actors; each gives its device back first, if it can. Safe to call twice.

        What they store, they have stored by then: a study can go on at once.
        """
        members, self._members = list(self._members.values()), {}
        releases = [call for member in members if (call := member.release()) is not None]
        if releases:
            ray.wait(releases, num_returns=len(releases), timeout=RELEASE_S)
        for member in members:
            member.kill()
        self._store.close()

    def _in_service(self) -> list[Member]:
        in_service = self._schedule.in_service
        return [m for uuid, m in self._members.items() if uuid in in_service]

    def _hand_out(self) -> Iterator[PoolEvent]:
        for depth in range(_AHEAD):  # everybody gets one before anybody gets a second
            for member in self._in_service():
                if member.probe is not None or len(member.work) != depth:
                    continue
                trial = self._schedule.take_next(member.uuid, self._source)
                if trial is not None:
                    member.give(trial)
                    if depth == 0:
                        yield TrialStarted(trial=trial, uuid=member.uuid)

    def _settle(self, member: Member) -> Iterator[PoolEvent]:
        if member.probe is not None:
            yield from self._settle_probe(member)
            return
        ref, trial = member.work[0]
        try:
            report: Report = ray.get(ref)
        except (RayActorError, ActorReplacedError) as error:
            yield from self._bury(member, error)
        except RayTaskError as error:
            member.work.popleft()
            yield from self._fail(member, trial, error)
            yield from self._next(member)
        except RayError as error:  # no trial's fault: a node that is cut off, a lost object
            member.work.popleft()
            yield from self._lose(member, trial, error)
            yield from self._next(member)
        else:
            member.work.popleft()
            yield from self._accept(member, trial, report)
            yield from self._next(member)

    def _next(self, member: Member) -> Iterator[PoolEvent]:
        if member.work:
            yield TrialStarted(trial=member.work[0][1], uuid=member.uuid)

    def _settle_probe(self, member: Member) -> Iterator[PoolEvent]:
        try:
            readiness: Readiness = ray.get(member.probe)
        except RayError as error:
            yield from self._quarantine(member, f"cannot be used: {words_of(error)}")
            return
        if readiness.code_version != code_version():
            yield from self._quarantine(
                member,
                f"runs other code than the driver ({readiness.code_version}, not "
                f"{code_version()}); install the same on every node, or submit with --runtime-env.",
            )
            return
        member.probe, member.readiness = None, readiness
        yield DeviceReady(uuid=member.uuid, hostname=readiness.hostname)

    def _accept(self, member: Member, trial: Trial, report: Report) -> Iterator[PoolEvent]:
        event, out = after_measuring(self._schedule, trial, member.uuid, report)
        yield event
        yield from self._rest(member, out)

    def _fail(self, member: Member, trial: Trial, error: RayTaskError) -> Iterator[PoolEvent]:
        """Deal with an attempt that raised: the fault of the request, or of the machinery."""
        cause = error.cause
        if isinstance(cause, TrackingError):
            raise cause
        event, out = after_failing(self._schedule, trial, member.uuid, cause, words_of(error))
        yield event
        yield from self._rest(member, out)

    def _bury(self, member: Member, error: Exception) -> Iterator[PoolEvent]:
        """Find out what a dead actor had done, plan the rest again, and await its return."""
        work, member.work = list(member.work), deque()
        while work and (report := self._stored(member, work[0][1])):
            yield from self._accept(member, work.pop(0)[1], report)
        for _, trial in reversed(work[1:]):
            self._schedule.put_back(trial)
        if work:
            trial = work[0][1]
            detail = f"The actor of {member.uuid} died: {words_of(error)}"
            retried = self._schedule.retry(trial, member.uuid)
            yield AttemptFailed(
                trial=trial, uuid=member.uuid, died=True, detail=detail, retried=retried
            )
        if member.uuid in self._schedule.in_service:
            member.look()
            yield from self._rest(
                member, struck(self._schedule, member.uuid, "died", words_of(error))
            )

    def _lose(self, member: Member, trial: Trial, error: RayError) -> Iterator[PoolEvent]:
        """Take what was stored of a trial whose result did not come, or plan it again."""
        if report := self._stored(member, trial):
            yield from self._accept(member, trial, report)
            return
        self._schedule.put_back(trial)
        detail = words_of(error)
        yield AttemptFailed(trial=trial, uuid=member.uuid, died=False, detail=detail, retried=True)
        yield from self._rest(member, struck(self._schedule, member.uuid, "failed", detail))

    def _stored(self, member: Member, trial: Trial) -> Report | None:
        """Return what the actor has stored of ``trial``; ``None`` if it had not finished it."""
        writer = member.readiness.writer if member.readiness else ""
        records = stored_records(self._store, writer, trial)
        if not records:
            return None
        return Report(records=records, writer=writer, between_s=None)

    def _rest(self, member: Member, out: str | None) -> Iterator[PoolEvent]:
        """Put a member out of service if there is a reason."""
        if out is not None:
            yield from self._quarantine(member, out)

    def _quarantine(self, member: Member, detail: str) -> Iterator[PoolEvent]:
        self._schedule.retire(member.uuid)
        for _, trial in reversed(member.work):
            self._schedule.put_back(trial)
        member.work.clear()
        member.kill()
        self._out_of_service[member.uuid] = detail
        yield DeviceQuarantined(uuid=member.uuid, detail=detail)

    def _expire(self) -> Iterator[PoolEvent]:
        for member in self._in_service():
            if member.is_overdue:
                yield from self._quarantine(
                    member,
                    f"was not ready on {member.site.hostname} within {READY_TIMEOUT_S:g} s; "
                    "see the node's state with `ray list nodes` and the worker's log.",
                )
