"""Run a search over the GPUs of a cluster, and lose none of what it measures."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.search.base import Outcome, Strategy
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint
from joulelab.tracking.study_lock import StudyLock
from joulelab_actors.events import StudyEvent, StudyInterrupted, StudyStarted
from joulelab_actors.gpu_actor import ActorSettings
from joulelab_actors.interruption import Interruption
from joulelab_actors.ledger import Ledger, StudySummary
from joulelab_actors.lifeline import Lifeline
from joulelab_actors.placement import Site
from joulelab_actors.pool import Pool
from joulelab_actors.resume import check_feasible
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.desk import Desk, Follower, Scorer, Sentinel
from joulelab_actors.search.history import history_of
from joulelab_actors.search.tune_link import TuneLink
from joulelab_actors.study import driver_store, no_gpu, open_study, tracker_of
from joulelab_actors.tracker_actor import TrackerLink

Observer = Callable[[Outcome, float], ChartPoint | None]
"""Told of an outcome and of the joules spent by then; returns a point of curves, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSummary:
    """What became of a search.

    Attributes:
        study: Its trials, counted as those of any study.
        stopped_by: What ended it: the strategy, a budget, or that no GPU was left.
        energy_j: Joules spent on its trials, those of earlier runs included.
        tune_trouble: What went wrong with Ray Tune, whose tables then lack trials that the
            results folder has; ``None`` if nothing did.
    """

    study: StudySummary
    stopped_by: str
    energy_j: float
    tune_trouble: str | None

    @property
    def words(self) -> str:
        """What was done and why it ended, in one sentence."""
        done = self.study.num_skipped + self.study.num_valid + self.study.num_invalid
        text = f"{done} trials, {self.energy_j / 1e3:,.3g} kJ; ended by {self.stopped_by}."
        return text if self.tune_trouble is None else f"{text} {self.tune_trouble}"


def run_search(
    strategy: Strategy,
    *,
    study: str,
    sites: Sequence[Site],
    results_dir: Path,
    procedure: Procedure,
    budget: Budget | None = None,
    sentinel: Sentinel | None = None,
    score: Scorer = lambda configuration: None,
    observe_only: bool = False,
    tracking_uri: str | None = None,
    settings: object = None,
    guard_socket: Path | None = None,
    conclude: Callable[[ResultStore, str], None] | None = None,
    on_event: Callable[[StudyEvent], None] = lambda event: None,
    follow: Observer = lambda outcome, spent_j: None,
) -> SearchSummary:
    """Measure on ``sites`` what ``strategy`` asks for, until it is done or the budget is out.

    Each result is durable before anybody is told of it. Started again with the same
    ``results_dir``, the strategy is told what is there, and the search goes on: nothing is
    measured a second time unless the strategy asks for a repeat. Ctrl-C or SIGTERM end the
    measuring, and the search concludes from what it has.

    Args:
        strategy: What to measure next; it must not have been told anything yet.
        study: Name of the study.
        sites: GPUs to use, from :mod:`joulelab_actors.placement`.
        results_dir: Results folder of the study, on a file system that every node sees.
        procedure: How to measure.
        budget: When to stop at the latest.
        sentinel: What every GPU measures between the others.
        score: What outputs of a configuration are worth, as looked up in the pool's thread.
        observe_only: Whether to call no setter, ever.
        tracking_uri: MLflow store to deliver to; ``None`` for none.
        settings: Settings dataclass of the experiment, for the study's header.
        guard_socket: Where clock guards listen; ``None`` for each node's own.
        conclude: Writes the study's answer into its store once the search has ended, so that
            the tracking store gets it too; told what ended it.
        on_event: Told what happens, in this thread, as it happens.
        follow: Told what came of each trial and the joules spent by then, in this thread, those
            of earlier runs first; returns a point of the tracking store's curves, or nothing.

    Raises:
        ConfigError: If the strategy asks for what cannot be carried out as written.
        DeviceError: If no GPU could be used.
        TrackingError: If results cannot be stored.
    """
    start_s, folder = time.monotonic(), results_dir.absolute()
    actors = ActorSettings.of(
        folder, procedure, observe_only=observe_only, guard_socket=guard_socket
    )
    with StudyLock(folder), Lifeline(study), closing(driver_store(folder)) as store:
        header = open_study(store, study, settings, tracking_uri)
        with (
            tracker_of(store, header, sites, tracking_uri) as tracker,
            TuneLink(folder / "tune", on_event) as tune,
        ):
            ledger = Ledger(store, sites, tracker, on_event)
            with Interruption() as interruption, closing(Pool(sites, actors)) as pool:
                # Only now: until then an actor of a driver that was killed may have been storing.
                history = history_of(store.read())
                desk = Desk(
                    strategy,
                    study=study,
                    book=tune,
                    budget=budget,
                    history=history,
                    check=partial(_check, sites=sites, observe_only=observe_only),
                    sentinel=sentinel,
                    score=score,
                    follow=_charted(follow, tracker),
                )
                on_event(_started(desk, sites))
                _measure(pool, desk, history.unfinished, ledger, interruption)
            if interruption.noted:
                on_event(StudyInterrupted(study=study))
            stopped_by = desk.stopped_by or _why_idle(ledger, sites, interruption)
            if conclude is not None:
                with interruption.excuses():
                    conclude(store, stopped_by)
            if tracker is not None:
                ledger.note_delivery(tracker.finish())
    return SearchSummary(
        study=ledger.summary(
            study=study,
            num_trials=len(desk.trials),
            num_skipped=desk.num_recalled,
            unfinished=pool.unfinished,
            interrupted=interruption.noted,
            wall_s=time.monotonic() - start_s,
        ),
        stopped_by=stopped_by,
        energy_j=desk.account.energy_j,
        tune_trouble=tune.trouble,
    )


def _started(desk: Desk, sites: Sequence[Site]) -> StudyStarted:
    return StudyStarted(
        num_trials=desk.account.budget.num_trials,
        num_skipped=desk.num_recalled,
        uuids=tuple(site.uuid for site in sites),
    )


def _measure(
    pool: Pool, desk: Desk, begun: Sequence[Trial], ledger: Ledger, interruption: Interruption
) -> None:
    for event in pool.run(begun, desk, must_stop=lambda: interruption.noted):
        ledger.note(event)
        desk.note(event)
    if ledger.quarantined and not desk.num_settled and not interruption.noted:
        raise no_gpu(ledger)


def _charted(follow: Observer, tracker: TrackerLink | None) -> Follower:
    """Return what tells ``follow``, and has the point that it returns delivered."""

    def told(outcome: Outcome, spent_j: float) -> None:
        point = follow(outcome, spent_j)
        if point is not None and tracker is not None:
            tracker.plot(point)

    return told


def _check(trial: Trial, sites: Sequence[Site], *, observe_only: bool) -> None:
    check_feasible([trial], sites, observe_only=observe_only)


def _why_idle(ledger: Ledger, sites: Sequence[Site], interruption: Interruption) -> str:
    if interruption.noted:
        return "an interruption"
    if len(ledger.quarantined) == len(sites):
        return "no GPU left in service"
    return "the strategy, which asked for nothing although nothing was out"
