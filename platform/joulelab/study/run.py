"""Carry out a study, whoever measures its trials, and lose none of what is measured."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

from joulelab.core.trial import Trial
from joulelab.devices.choice import is_hardware
from joulelab.errors import ConfigError, DeviceError, JouleLabError
from joulelab.provenance import collect_provenance
from joulelab.study.events import StudyEvent, StudyInterrupted, StudyStarted
from joulelab.study.gpu import StudyGpu
from joulelab.study.kind import check_kind
from joulelab.study.ledger import Ledger, SearchSummary, StudySummary
from joulelab.study.pool import FixedTrials, StudyTrials, WorkerPool
from joulelab.study.resume import check_feasible
from joulelab.study.search_queue import CheckTrial, Search, SearchQueue
from joulelab.study.telling import StateKeeper
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader, discreet_header, flat_settings
from joulelab.tracking.study_lock import StudyLock
from joulelab.tracking.tracker_process import TrackerLink, TrackerProcess

Conclude = Callable[[ResultStore, str], object]
"""Writes a study's answer into its store, given what ended it."""
_NICENESS = 10
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE_S = 1.0
"""Signals within this time are one: ``timeout`` and schedulers send theirs twice."""

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption(AbstractContextManager["Interruption"]):
    """Notes the first signal that comes while it is entered; a later one interrupts at once.

    What is ignored stays ignored. Outside the main thread, to which Python hands all signals, it
    notes nothing.
    """

    def __init__(self) -> None:
        self.noted = False
        self._noted_s = 0.0
        self._before: dict[signal.Signals, _Handler] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            heeded = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # A handler that was not set from Python is known as None.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def excuses(self, instead: str = "") -> Generator[None]:
        """Conclude within this: what an interrupted study cannot say is no fault of its own.

        Raises KeyboardInterrupt in place of an error, if a signal came, which says ``instead``, if
        given.
        """
        try:
            yield
        except JouleLabError as error:
            if self.noted:
                raise KeyboardInterrupt(instead or str(error)) from error
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if not self.noted:
            self.noted, self._noted_s = True, now_s
        elif now_s > self._noted_s + _ONE_S:
            raise KeyboardInterrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySetup:
    """What a study is carried out with, be its trials fixed or asked for."""

    gpus: Sequence[StudyGpu]
    folder: Path  # results folder of the study, absolute
    # Makes those who measure; not called if nothing is left to do.
    make_pool: Callable[[], WorkerPool]
    tracking_uri: str | None = None  # that store, with its password; None for none
    make_queue: Callable[[Search, CheckTrial], SearchQueue] = SearchQueue
    observe_only: bool = False
    settings: object = None  # settings dataclass of the experiment, for the study's header
    kind: str | None = None  # which may go on in the folder; None for any
    workloads: Collection[str] = ()  # names of what is to run
    # Writes what is asked for into the study's store, before anything is measured.
    begin: Callable[[ResultStore], object] = lambda store: None
    # Makes what watches over the study of that name while it runs.
    watch: Callable[[str], AbstractContextManager[object]] = nullcontext
    # Lets others have the GPUs, once there is an answer and the rest is to be delivered.
    let_go: Callable[[], None] = lambda: None
    # Told what happens, in the driver's thread, as it happens.
    on_event: Callable[[StudyEvent], None] = lambda event: None


def run_trials(
    trials: Sequence[Trial],
    setup: StudySetup,
    conclude: Callable[[ResultStore], object] | None = None,
) -> StudySummary:
    """Measure ``trials`` of one study, each result durable before anybody hears of it.

    Started again with the same folder, it goes on where it ended, however it ended: trials with
    valid measurements in the folder are skipped. A GPU that has not measured the study's sentinel
    begins with it. Ctrl-C or SIGTERM end the measuring, and the study concludes from what it has.
    ``conclude`` writes the answer before the tracking store has all, so that it gets it too. Raises
    ConfigError if the trials cannot be carried out as written; nothing was written then;
    DeviceError if nothing could be measured, because no GPU could be used; TrackingError if results
    cannot be stored.
    """
    check_feasible(trials, setup.gpus, observe_only=setup.observe_only)
    fixed = FixedTrials(trials, {gpu.uuid: gpu.identity.name for gpu in setup.gpus})
    if conclude is None:
        return _carry_out(fixed, setup, None)[0]
    return _carry_out(fixed, setup, lambda store, _stopped_by: conclude(store))[0]


def run_asked(search: Search, setup: StudySetup, conclude: Conclude | None = None) -> SearchSummary:
    """Measure what a strategy asks for, until it is done or the budget is out.

    Each result is durable before anybody hears of it. Started again with the same folder, the
    strategy gets what is there, and the search goes on: nothing is measured a second time unless
    the strategy asks for a repeat. Ctrl-C or SIGTERM end the measuring, and the search concludes
    from what it has, as :func:`run_trials` does. Raises ConfigError if the strategy asks for what
    cannot be carried out as written; DeviceError if no GPU could be used; TrackingError if results
    cannot be stored.
    """
    check = partial(check_feasible, gpus=setup.gpus, observe_only=setup.observe_only)
    queue = setup.make_queue(search, lambda trial: check([trial]))
    summary, stopped_by = _carry_out(queue, setup, conclude)
    return SearchSummary(
        study=summary,
        stopped_by=stopped_by,
        energy_j=queue.account.energy_j,
    )


def _carry_out(
    trials: StudyTrials, setup: StudySetup, conclude: Conclude | None
) -> tuple[StudySummary, str]:
    """Measure, conclude and deliver; return what became of the study, and what ended it."""
    start_s = time.monotonic()
    with (
        StudyLock(setup.folder),
        setup.watch(trials.study),
        closing(driver_store(setup.folder)) as store,
    ):
        header = open_study(store, trials.study, setup)
        setup.begin(store)
        keeper = StateKeeper(trials.study, setup.folder, setup.on_event)
        setup = replace(setup, on_event=keeper)
        with closing(keeper), _tracker(setup, store, header) as tracker:
            ledger = Ledger(store, setup.gpus, tracker, setup.on_event)
            with Interruption() as interruption:
                unfinished = _measure(
                    trials, setup, ledger, store=store, tracker=tracker, interruption=interruption
                )
            if interruption.noted:
                setup.on_event(StudyInterrupted(study=trials.study))
            elif ledger.quarantined and not ledger.num_settled:
                raise _no_gpu(ledger)
            stopped_by = trials.stopped_by or _why_idle(ledger, setup.gpus, interruption)
            if conclude is not None:
                with interruption.excuses(_nothing_yet(trials, ledger)):
                    conclude(store, stopped_by)
            setup.let_go()
            if tracker is not None:
                ledger.note_delivery(tracker.finish(ledger.note_left))
    summary = ledger.summary(
        study=trials.study,
        num_trials=trials.num_trials,
        num_skipped=trials.num_skipped,
        unfinished=unfinished,
        interrupted=interruption.noted,
        wall_s=time.monotonic() - start_s,
    )
    return summary, stopped_by


def _measure(
    trials: StudyTrials,
    setup: StudySetup,
    ledger: Ledger,
    *,
    store: ResultStore,
    tracker: TrackerLink | None,
    interruption: Interruption,
) -> tuple[Trial, ...]:
    """Measure what is left to do; return what no GPU was left for."""
    uuids = tuple(gpu.uuid for gpu in setup.gpus)
    with ExitStack() as stack:
        pool = stack.enter_context(closing(setup.make_pool())) if trials.has_rest(store) else None
        # Only now: until then an actor of a driver that was killed may have been storing.
        plot = (lambda point: None) if tracker is None else tracker.plot
        first, untied = trials.resume(store.read(), uuids, plot)
        every = tuple(a.uuid for gpu in setup.gpus for a in (gpu.address, *gpu.partners))
        setup.on_event(
            StudyStarted(num_trials=trials.num_planned, num_skipped=trials.num_skipped, uuids=every)
        )
        if pool is None:
            return ()
        stack.enter_context(trials.running())
        for event in pool.run(first, trials, untied=untied, must_stop=lambda: interruption.noted):
            ledger.note(event)
            trials.note(event)
        return pool.unfinished


def _tracker(
    setup: StudySetup, store: ResultStore, header: StudyHeader
) -> AbstractContextManager[TrackerLink | None]:
    """Return the link to the tracking store; the header does not do, since it has no passwords."""
    uri = setup.tracking_uri
    if uri is None:
        return nullcontext()
    # What is simulated or replayed takes the same virtual time on a busy machine.
    gives_way = any(is_hardware(gpu.address) for gpu in setup.gpus)
    process = TrackerProcess(str(store.folder), uri, header, _NICENESS if gives_way else 0)
    return closing(TrackerLink(store, uri, process))


def _nothing_yet(trials: StudyTrials, ledger: Ledger) -> str:
    """Say that a study has measured nothing so far, and how it goes on; empty if it has."""
    if ledger.num_settled or trials.num_skipped:
        return ""
    return f"Nothing was measured yet; the same command with --study {trials.study} goes on."


def _no_gpu(ledger: Ledger) -> DeviceError:
    """Return the error of a study that measured nothing, with what is wrong with each GPU."""
    why = "; ".join(f"{uuid}: {detail}" for uuid, detail in ledger.quarantined.items())
    return DeviceError(f"Nothing was measured, since no GPU can be used. {why}")


def _why_idle(ledger: Ledger, gpus: Sequence[StudyGpu], interruption: Interruption) -> str:
    if interruption.noted:
        return "an interruption"
    if len(ledger.quarantined) == len(gpus):
        return "no GPU left in service"
    return "the strategy, which asked for nothing although nothing was out"


def driver_store(folder: Path) -> ResultStore:
    """Return the results folder of a study, with a file of this driver's own to write to."""
    return ResultStore(folder, f"driver@{socket.gethostname()}-{os.getpid()}")


def open_study(store: ResultStore, study: str, setup: StudySetup) -> StudyHeader:
    """Write the header of a new study, or go on with the one that the folder holds.

    Headers have no passwords or home folders. ConfigError if its name or kind is another.
    """
    known = store.read_study()
    if known is not None and known.name != study:
        raise ConfigError(
            f"{store.folder} holds study {known.name!r}, not {study!r}; "
            "give every study a results folder of its own."
        )
    check_kind(store, setup.kind)
    header = discreet_header(
        StudyHeader(
            name=study,
            sweep_id=known.sweep_id if known else uuid4().hex[:12],
            command=(_from_here(sys.argv[0]), *sys.argv[1:]),
            settings=flat_settings(setup.settings) if setup.settings is not None else (),
            provenance=known.provenance if known else collect_provenance(),
            tracking_uri=setup.tracking_uri,
            kind=setup.kind or (known.kind if known else None),
            workloads=tuple(sorted({*(known.workloads if known else ()), *setup.workloads})),
        )
    )
    store.write_study(header)
    return header


def _from_here(script: str) -> str:
    """Return the path of a script from the working folder, if it lies below it."""
    path = Path(script)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else script
