"""The page of a study that goes on: how far it is, and the report of what it has so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from rich.table import Table

from joulelab.analysis import knob_grid, search_result
from joulelab.analysis.conclude import report_by_header, report_of
from joulelab.analysis.knob_grid import read_knob_log
from joulelab.analysis.knob_report import knob_report
from joulelab.analysis.knob_study import analyse_knobs
from joulelab.analysis.page import render
from joulelab.analysis.quantities import counted
from joulelab.analysis.search_result import LoggedTrial, SearchResult, read_log, result_of
from joulelab.analysis.study_report import StudyReport
from joulelab.analysis.sweep import analyse_sweep
from joulelab.core.measurement import Measurement
from joulelab.errors import ConfigError, MeasurementError
from joulelab.study.resume import history_of
from joulelab.study.search_queue import lookup, scored
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyState, read_state
from joulelab.tracking.study_lock import Holder, holder_of

_TEMPLATE = "live.html.j2"
_KILLED = "the end of its process"


def live_page(folder: Path) -> str:
    """Return the page of the study in a results folder, as one HTML file that needs nothing else.

    What there is nothing to say of yet is left out, and the page says why.

    Raises:
        TrackingError: If the results cannot be read.
    """
    store, state, holder = ResultStore(folder, "watch"), read_state(folder), holder_of(folder)
    shown = {
        "under_way": holder is not None,
        "progress": list(_progress(holder, state)),
        "running": None if state is None else _running(state),
        "troubles": None if state is None else _troubles(state),
    }
    measurements = store.read()
    try:
        return _report(store, measurements).page(_TEMPLATE, **shown)
    except (ConfigError, MeasurementError) as error:
        return _without_report(store, measurements, str(error), shown)


def _report(store: ResultStore, measurements: Sequence[Measurement]) -> StudyReport:
    """Return the report of what a study has measured.

    Raises:
        ConfigError: If there is nothing to report yet.
        MeasurementError: Likewise.
    """
    if not measurements:
        raise ConfigError("Nothing was measured yet.")
    if (report := report_by_header(store)) is not None:
        return report
    header = store.read_study()
    if (name := _newest(store.folder, search_result.ASKED, search_result.LOG)) is not None:
        return report_of(store, search_so_far(store, measurements, name))
    name = _newest(store.folder, knob_grid.ASKED, knob_grid.LOG)
    if name is not None and (log := read_knob_log(store, name=name)) is not None:
        found = analyse_knobs(measurements, log.study.grid, quality=log.quality)
        return knob_report(found, log, measurements, header=header)
    objective = None if header is None else dict(header.settings).get("objective")
    return report_of(store, analyse_sweep(measurements, str(objective or "edp")))


def _newest(folder: Path, *names: str) -> str | None:
    """Return which of these files was written last: what is asked for, or what was found."""
    changed_ns = {n: (folder / n).stat().st_mtime_ns for n in names if (folder / n).exists()}
    return max(changed_ns, key=lambda name: changed_ns[name], default=None)


def search_so_far(
    store: ResultStore, measurements: Sequence[Measurement], name: str = search_result.ASKED
) -> SearchResult:
    """Return what a search has found so far in what was measured, whether it goes on or not.

    Args:
        store: The search's results.
        measurements: What is in there.
        name: File with what is asked for, or of a search that has ended with its trials.

    Raises:
        ConfigError: If nothing was searched for there, or not even one trial has ended.
        MeasurementError: If the baseline was not measured yet, or nothing ties it to the best.
        TrackingError: If the file cannot be read.
    """
    log, history = read_log(store, name=name), history_of(measurements)
    if log is None:
        raise ConfigError(f"{store.folder} must be of a search, but has no {name}.")
    if log.trials:
        return result_of(log, measurements)
    if not history.outcomes:
        raise ConfigError("No trial has ended yet.")
    if holder_of(store.folder) is None:
        log = replace(log, method=replace(log.method, stopped_by=_KILLED))
    score = lookup(dict(log.qualities))
    trials = tuple(
        LoggedTrial(outcome=scored(outcome, score), spent_j=spent_j)
        for outcome, spent_j in zip(history.outcomes, accumulate(history.energies_j), strict=True)
    )
    return result_of(replace(log, trials=trials, spent_j=history.energy_j), measurements)


def _without_report(
    store: ResultStore, measurements: Sequence[Measurement], why: str, shown: Mapping[str, object]
) -> str:
    header = store.read_study()
    return render(
        _TEMPLATE,
        title=store.folder.name if header is None else header.name,
        answer=[f"There is nothing to report yet. {why}"],
        sections=[],
        devices=list({m.device.uuid: m.device for m in measurements}.values()),
        header=header,
        origin=[],
        **shown,
    )


def _progress(holder: Holder | None, state: StudyState | None) -> Iterator[tuple[str, str]]:
    now = "ended: no process has it" if holder is None else f"under way: {holder.words}"
    yield "study", now
    if state is None:
        return
    total = "" if state.num_trials is None else f" of {state.num_trials}"
    yield "trials", f"{state.num_done}{total} done"
    if state.num_retries:
        yield "attempts", f"{counted(state.num_retries, 'attempt')} of this run made again"
    yield "measuring since", _time(state.since_unix_s)
    yield "last news", _time(state.updated_unix_s)


def _running(state: StudyState) -> Table | None:
    table = Table("GPU", "measures", "since", title="Now")
    for each in state.running:
        table.add_row(each.uuid, each.trial, _time(each.since_unix_s))
    return table if state.running else None


def _troubles(state: StudyState) -> Table | None:
    table = Table("what", "why", title="Given up")
    for each in (*state.out_of_service, *state.failed):
        table.add_row(each.what, each.detail)
    return table if table.rows else None


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).astimezone().isoformat(" ", timespec="seconds")
