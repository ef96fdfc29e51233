"""Run the trials of a study over the GPUs of a cluster, and lose none of them."""

import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from uuid import uuid4

from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.choice import is_hardware
from joulelab.errors import ConfigError, DeviceError
from joulelab.provenance import collect_provenance
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader, discreet_header, flat_settings
from joulelab.tracking.study_lock import StudyLock
from joulelab_actors.events import StudyEvent, StudyInterrupted, StudyStarted
from joulelab_actors.gpu_actor import ActorSettings
from joulelab_actors.interruption import Interruption
from joulelab_actors.ledger import Ledger, StudySummary
from joulelab_actors.lifeline import Lifeline
from joulelab_actors.placement import Site
from joulelab_actors.pool import Pool
from joulelab_actors.resume import check_feasible, rest_of, ties
from joulelab_actors.tracker_actor import TrackerLink


def run_study(
    trials: Sequence[Trial],
    *,
    sites: Sequence[Site],
    results_dir: Path,
    procedure: Procedure,
    observe_only: bool = False,
    tracking_uri: str | None = None,
    settings: object = None,
    guard_socket: Path | None = None,
    conclude: Callable[[ResultStore], None] | None = None,
    on_event: Callable[[StudyEvent], None] = lambda event: None,
) -> StudySummary:
    """Measure ``trials`` on ``sites``, each result durable before anybody is told of it.

    Started again with the same ``results_dir``, it goes on where it ended, however it ended:
    trials with valid measurements in the folder are skipped. A GPU that has not measured the
    study's sentinel begins with it. Ctrl-C or SIGTERM end the measuring, and the study concludes
    from what it has.

    Args:
        trials: In the order in which to measure them; all of one study, with unique names.
        sites: GPUs to use, from :mod:`joulelab_actors.placement`.
        results_dir: Results folder of the study, on a file system that every node sees. What
            a node stores where the driver cannot see it, the driver stores a second time.
        procedure: How to measure.
        observe_only: Whether to call no setter, ever.
        tracking_uri: MLflow store to deliver to; ``None`` for none.
        settings: Settings dataclass of the experiment, for the study's header.
        guard_socket: Where clock guards listen; ``None`` for each node's own.
        conclude: Writes the study's answer into its store once all is measured, so that the
            tracking store gets it too.
        on_event: Told what happens, in this thread, as it happens.

    Raises:
        ConfigError: If the trials cannot be carried out as written; nothing was written then.
        DeviceError: If nothing could be measured, because no GPU could be used.
        TrackingError: If results cannot be stored.
    """
    check_feasible(trials, sites, observe_only=observe_only)
    start_s, folder = time.monotonic(), results_dir.absolute()
    actors = ActorSettings.of(
        folder, procedure, observe_only=observe_only, guard_socket=guard_socket
    )
    study = trials[0].study
    with StudyLock(folder), Lifeline(study), closing(driver_store(folder)) as store:
        header = open_study(store, study, settings, tracking_uri)
        known = store.read()
        rest = rest_of(trials, known)
        added, untied = ties(trials, rest, known, [site.uuid for site in sites])
        todo, num_skipped = [*added, *rest], len(trials) - len(rest)
        on_event(
            StudyStarted(
                num_trials=num_skipped + len(todo),
                num_skipped=num_skipped,
                uuids=tuple(site.uuid for site in sites),
            )
        )
        with tracker_of(store, header, sites, tracking_uri) as tracker:
            ledger = Ledger(store, sites, tracker, on_event)
            unfinished: tuple[Trial, ...] = ()
            with Interruption() as interruption:
                if todo:
                    with closing(Pool(sites, actors)) as pool:
                        _measure(pool, todo, untied, ledger, interruption)
                        unfinished = pool.unfinished
            if interruption.noted:
                on_event(StudyInterrupted(study=header.name))
            elif todo and len(unfinished) == len(todo):
                raise no_gpu(ledger)
            if conclude is not None:
                with interruption.excuses():
                    conclude(store)
            if tracker is not None:
                ledger.note_delivery(tracker.finish())
    return ledger.summary(
        study=header.name,
        num_trials=num_skipped + len(todo),
        num_skipped=num_skipped,
        unfinished=unfinished,
        interrupted=interruption.noted,
        wall_s=time.monotonic() - start_s,
    )


def _measure(
    pool: Pool,
    trials: Sequence[Trial],
    untied: Collection[str],
    ledger: Ledger,
    interruption: Interruption,
) -> None:
    for event in pool.run(trials, untied=untied, must_stop=lambda: interruption.noted):
        ledger.note(event)


def no_gpu(ledger: Ledger) -> DeviceError:
    """Return the error of a study that measured nothing, with what is wrong with each GPU."""
    why = "; ".join(f"{uuid}: {detail}" for uuid, detail in ledger.quarantined.items())
    return DeviceError(f"Nothing was measured, since no GPU can be used. {why}")


def driver_store(folder: Path) -> ResultStore:
    """Return the results folder of a study, with a file of this driver's own to write to."""
    return ResultStore(folder, f"driver@{socket.gethostname()}-{os.getpid()}")


def tracker_of(
    store: ResultStore, header: StudyHeader, sites: Sequence[Site], uri: str | None
) -> TrackerLink | nullcontext[None]:
    """Return the link to the tracking store at ``uri``, to be entered; nothing without a store.

    The header does not do, since it has no passwords.
    """
    if uri is None:
        return nullcontext()
    # What is simulated or replayed takes the same virtual time on a busy machine.
    gives_way = any(is_hardware(site.address) for site in sites)
    return TrackerLink(store, uri, header, gives_way=gives_way)


def open_study(
    store: ResultStore, study: str, settings: object, tracking_uri: str | None
) -> StudyHeader:
    """Write the header of a new study, or go on with the one that the folder holds.

    It has neither passwords nor home folders.

    Raises:
        ConfigError: If the folder holds another study.
    """
    known = store.read_study()
    if known is not None and known.name != study:
        raise ConfigError(
            f"{store.folder} holds study {known.name!r}, not {study!r}; "
            "give every study a results folder of its own."
        )
    header = discreet_header(
        StudyHeader(
            name=study,
            sweep_id=known.sweep_id if known else uuid4().hex[:12],
            command=(_from_here(sys.argv[0]), *sys.argv[1:]),
            settings=flat_settings(settings) if settings is not None else (),
            provenance=known.provenance if known else collect_provenance(),
            tracking_uri=tracking_uri,
        )
    )
    store.write_study(header)
    return header


def _from_here(script: str) -> str:
    """Return the path of a script from the working folder, if it lies below it."""
    path = Path(script)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else script
