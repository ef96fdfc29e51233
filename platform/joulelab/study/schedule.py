"""Which GPU does which trial next, and what becomes of both after an attempt; no Ray in here.

The plan is known beforehand, or grows while it is carried out. Trials go out in its order, so
every GPU gets its share of each randomised block in that block's order. A trial that has to be
done again goes first, to another GPU if there is one.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from typing_extensions import override

from joulelab.core.measurement import InvalidReason
from joulelab.core.trial import Trial
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DevicePermissionError,
    DeviceUnsupportedError,
    GuardError,
)
from joulelab.study.events import AttemptFailed, TrialMeasured
from joulelab.study.worker import Report


class TrialSource(ABC):
    """Trials that are not known beforehand, since they depend on what comes of others.

    The pool asks while the GPUs measure, so that the next trial is with a GPU before it is free.
    """

    @abstractmethod
    def take(self, uuid: str) -> Trial | None:
        """Return the next trial, for the GPU ``uuid``; ``None`` if there is none right now.

        Never blocks. Once taken, a trial is the pool's until an event says that it has ended.
        """

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether nothing more will come, whatever is still out."""

    @property
    def news(self) -> Any:
        """What a pool on Ray waits for besides GPUs, to :meth:`hear` it; ``None`` for nothing."""
        return None

    def hear(self) -> None:
        """Take note of the news, which are there."""


class NothingMore(TrialSource):
    """The source of a pool whose trials are all known beforehand."""

    @override
    def take(self, uuid: str) -> Trial | None:
        return None

    @property
    @override
    def is_done(self) -> bool:
        return True


DEVICE_IS_OUT: frozenset[InvalidReason] = frozenset({"device_lost", "permission_denied"})
"""Findings after which a device can be used no more."""
MACHINERY: frozenset[InvalidReason] = DEVICE_IS_OUT.union(
    {"actor_died", "foreign_setting", "lease_lost"}
)
"""Findings that speak of the machinery and not of the operating point: to be tried again."""

MAX_TRIES = 3
"""How often a trial is tried in all before it is given up: it may be what kills its actors."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    trial: Trial
    num_tries: int = 0
    avoid: str | None = None


class Schedule:
    """Hands out trials, whose names are unique, in order, and takes back those to be done again.

    GPUs that are ``untied`` begin with a sentinel, if there are enough: GPUs are compared by what
    all of them measured. ``products`` are those of the GPUs, by UUID; trials may be for one alone.
    ``clocks_mhz`` are those that a GPU can be set to, by UUID; one without can be set to any.
    A trial is tried ``max_tries`` times in all; ``max_strikes`` failures in a row put a GPU out of
    service. Raises ConfigError if two trials share a name.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        uuids: Iterable[str],
        *,
        untied: Collection[str] = (),
        products: Mapping[str, str] | None = None,
        clocks_mhz: Mapping[str, Collection[int]] | None = None,
        max_tries: int = MAX_TRIES,
        max_strikes: int = 3,
    ) -> None:
        self._products = products or {}
        self._clocks_mhz = clocks_mhz or {}
        self._names: set[str] = set()
        self._waiting: dict[str | None, deque[_Waiting]] = {}  # by product; None: of any
        for trial in trials:
            self.add(trial)
        self._out: dict[str, _Waiting] = {}
        self._strikes = dict.fromkeys(uuids, 0)
        self._untied = set(untied) & self._strikes.keys()
        self._max_tries = max_tries
        self.max_strikes = max_strikes

    @property
    def in_service(self) -> frozenset[str]:
        """GPUs that may be given trials."""
        return frozenset(self._strikes)

    @property
    def has_unfinished(self) -> bool:
        """Whether trials wait, or are out on a GPU."""
        return bool(self._out) or any(self._waiting.values())

    @property
    def unfinished(self) -> tuple[Trial, ...]:
        """Trials that wait, or are out on a GPU."""
        return tuple(w.trial for w in (*self._out.values(), *chain(*self._waiting.values())))

    def add(self, trial: Trial) -> None:
        """Plan a trial after all those that wait.

        Raises ConfigError if it shares its name with another.
        """
        if trial.name in self._names:
            raise ConfigError(
                f"Trials of a study need names of their own; {trial.name!r} is double."
            )
        self._names.add(trial.name)
        self._those_like(trial).append(_Waiting(trial))

    def take(self, uuid: str) -> Trial | None:
        """Give ``uuid`` the next trial that it may do; ``None`` if there is none for it."""
        given = self._next_for(uuid)
        if given is None:
            return None
        self._those_like(given.trial).remove(given)
        self._out[given.trial.name] = given
        self._untied.discard(uuid)
        return given.trial

    def foresee(self, uuid: str) -> Trial | None:
        """Return what :meth:`take` would give ``uuid``; ``None`` if nothing waits for it."""
        given = self._next_for(uuid)
        return None if given is None else given.trial

    def take_next(self, uuid: str, source: TrialSource) -> Trial | None:
        """Give ``uuid`` the next trial; where none waits for it, one of ``source`` is planned."""
        trial = self.take(uuid)
        if trial is None and (new := source.take(uuid)) is not None:
            self.add(new)
            trial = self.take(uuid)
        return trial

    def _next_for(self, uuid: str) -> _Waiting | None:
        """Return what is next, but sentinels first to those that are to begin with one."""
        # Those of other products are not looked at: they may be 100,000.
        products = dict.fromkeys((self._products.get(uuid), None))
        queues = [self._waiting.get(product, ()) for product in products]
        allowed = (w for w in chain(*queues) if self._may_do(w, uuid))
        if not self._untied:
            return next(allowed, None)  # all of a long plan need not be looked at
        sentinels = [w for w in chain(*queues) if w.trial.sentinel and self._may_do(w, uuid)]
        if uuid in self._untied and sentinels:
            return sentinels[0]
        waiting_for = [u for u in self._untied if any(self._fits(w, u) for w in sentinels)]
        are_kept = uuid not in self._untied and len(sentinels) <= len(waiting_for)
        return next((w for w in allowed if not (are_kept and w.trial.sentinel)), None)

    def _those_like(self, trial: Trial) -> deque[_Waiting]:
        return self._waiting.setdefault(trial.device_name, deque())

    def _fits(self, waiting: _Waiting, uuid: str) -> bool:
        clock_mhz = waiting.trial.configuration.point.sm_clock_mhz
        can_be_set = clock_mhz is None or clock_mhz in self._clocks_mhz.get(uuid, (clock_mhz,))
        return can_be_set and waiting.trial.fits(self._products.get(uuid))

    def _may_do(self, waiting: _Waiting, uuid: str) -> bool:
        """Whether ``uuid`` may be given a trial, which another is to try again if there is one."""
        others = (other for other in self._strikes if other != uuid)
        avoids = waiting.avoid == uuid and any(self._fits(waiting, other) for other in others)
        return self._fits(waiting, uuid) and not avoids

    def put_back(self, trial: Trial) -> None:
        """Take back a trial that was handed out but not begun."""
        self._those_like(trial).appendleft(self._out.pop(trial.name))

    def finish(self, trial: Trial, uuid: str) -> None:
        """Note that ``trial`` needs no further try, and that ``uuid`` works."""
        del self._out[trial.name]
        if uuid in self._strikes:
            self._strikes[uuid] = 0

    def give_up(self, trial: Trial) -> None:
        """Note that another try of ``trial`` would fail as this one did."""
        del self._out[trial.name]

    def retry(self, trial: Trial, uuid: str) -> bool:
        """Plan another try of a trial that failed on ``uuid``; ``False`` if it had them all."""
        tried = self._out.pop(trial.name)
        num_tries = tried.num_tries + 1
        if num_tries >= self._max_tries:
            return False
        again = replace(trial, attempt=trial.attempt + 1)
        self._those_like(trial).appendleft(_Waiting(again, num_tries=num_tries, avoid=uuid))
        return True

    def strike(self, uuid: str) -> bool:
        """Count a failure of ``uuid``; ``True`` if it is one too many in a row."""
        self._strikes[uuid] += 1
        return self._strikes[uuid] >= self.max_strikes

    def retire(self, uuid: str) -> None:
        """Give ``uuid`` no more trials."""
        self._strikes.pop(uuid, None)
        self._untied.discard(uuid)


def after_measuring(
    schedule: Schedule, trial: Trial, uuid: str, report: Report
) -> tuple[TrialMeasured, str | None]:
    """Note in ``schedule`` a trial that ran to its end, valid or not.

    Returns what happened, and why the GPU takes no more trials; ``None`` if it does.
    """
    findings = {f.reason: f.detail for r in report.records for f in r.measurement.findings}
    machinery = sorted(findings.keys() & MACHINERY)
    retried, out = False, None
    if not machinery:
        schedule.finish(trial, uuid)
    else:
        retried = schedule.retry(trial, uuid)
        if lost := sorted(findings.keys() & DEVICE_IS_OUT):
            out = findings[lost[0]]
        else:
            out = struck(schedule, uuid, "failed", findings[machinery[0]])
    event = TrialMeasured(
        trial=trial,
        uuid=uuid,
        records=report.records,
        writer=report.writer,
        between_s=report.between_s,
        retried=retried,
    )
    return event, out


def after_failing(
    schedule: Schedule, trial: Trial, uuid: str, cause: BaseException, detail: str
) -> tuple[AttemptFailed, str | None]:
    """Note an attempt that raised ``cause``: the fault of the request, or of the machinery.

    Returns what happened, and why the GPU takes no more trials; ``None`` if it does.
    """
    refused = isinstance(cause, ConfigError | DeviceUnsupportedError)
    is_machinery = isinstance(cause, DeviceError | GuardError)
    if refused or not is_machinery:
        schedule.give_up(trial)
        retried = False
    else:
        retried = schedule.retry(trial, uuid)
    if isinstance(cause, DeviceLostError | DevicePermissionError):
        out: str | None = detail
    else:
        out = struck(schedule, uuid, "failed", detail) if is_machinery else None
    event = AttemptFailed(
        trial=trial, uuid=uuid, died=False, detail=detail, retried=retried, refused=refused
    )
    return event, out


def struck(schedule: Schedule, uuid: str, verb: str, detail: str) -> str | None:
    """Count a failure of ``uuid``; return why it is out of service if it is one too many."""
    if schedule.strike(uuid):
        return f"{verb} {schedule.max_strikes} times in a row: {detail}"
    return None
