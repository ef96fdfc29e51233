"""What a results folder comes to: its answer, report, plots and table, or a page of it so far.

A study can be reported once more from its folder alone, whatever its kind.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.analysis import knob_grid, search_result
from joulelab.analysis.knob_grid import KnobLog, KnobStudy, read_knob_log
from joulelab.analysis.knob_study import KnobResult, analyse_knobs
from joulelab.analysis.matrix import Matrix, MatrixRow, matrix_in, matrix_rows
from joulelab.analysis.search_result import LoggedTrial, SearchResult, log_of, read_log, result_of
from joulelab.analysis.sweep import SweepResult, analyse_sweep
from joulelab.core.measurement import Measurement
from joulelab.core.quality import Quality
from joulelab.errors import ConfigError, MeasurementError, TrackingError
from joulelab.study.resume import history_of
from joulelab.study.search_queue import lookup, scored
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, RunMetrics, read_state
from joulelab.tracking.study_lock import holder_of

if TYPE_CHECKING:  # matplotlib takes a second
    from joulelab.analysis.study_report import StudyReport

Found = SweepResult | KnobResult | SearchResult
_KILLED = "the end of its process"


def conclude_sweep(store: ResultStore, objective: str = "edp") -> SweepResult:
    """Analyse a sweep and write answer, report, plots and table into its results folder.

    Raises ConfigError if there is nothing to analyse, or no such objective; TrackingError if the
    results cannot be read or the answer not be written.
    """
    result = analyse_sweep(store.read(), objective)
    report_of(store, result).write(store)
    return result


def conclude_knobs(
    store: ResultStore, study: KnobStudy, quality: Sequence[tuple[Quality, ...]] = ()
) -> KnobResult:
    """Analyse a study and write answer, log, report, plot and table into its results folder.

    ``quality`` is what the outputs of each case are worth; empty if not scored. Raises ConfigError
    if there is nothing to analyse; TrackingError if the results cannot be read or the answer not be
    written.
    """
    result = analyse_knobs(store.read(), study.grid, quality=quality)
    store.write_file(knob_grid.LOG, KnobLog(study=study, quality=tuple(quality)))
    report_of(store, result).write(store)
    return result


def write_search(store: ResultStore, result: SearchResult, runs: Sequence[RunMetrics]) -> Answer:
    """Write answer, log, report, plots and table of a search into its results folder.

    ``runs`` are numbers that only the whole search knows of a measurement. Raises TrackingError if
    the results cannot be read or the answer not be written.
    """
    store.write_file(search_result.LOG, log_of(result))
    return report_of(store, result, runs).write(store)


def conclude_matrix(store: ResultStore, matrix: Matrix) -> tuple[MatrixRow, ...]:
    """Write answer, report, plot and table of a matrix into its folder; return the rows."""
    rows = matrix_rows(matrix, store.read())
    _of_matrix(store, matrix, rows).write(store)
    return rows


def _of_matrix(store: ResultStore, matrix: Matrix, rows: tuple[MatrixRow, ...]) -> "StudyReport":
    from joulelab.analysis.cell_report import matrix_report

    return matrix_report(matrix, rows, store.read(), store.read_study())


def baseline_of(store: ResultStore) -> "StudyReport":
    """Return the report of a baseline, of which nothing is written yet."""
    from joulelab.analysis.cell_report import baseline_report

    return baseline_report(store.read(), store.read_study())


def _by_header(store: ResultStore) -> "StudyReport | None":
    """Return the report of a matrix or a baseline, whose headers name it; ``None`` of all others.

    Raises ConfigError if there is nothing to report; TrackingError if the results cannot be read.
    """
    header = store.read_study()
    settings = {} if header is None else dict(header.settings)
    if (matrix := matrix_in(settings)) is not None:
        return _of_matrix(store, matrix, matrix_rows(matrix, store.read()))
    return baseline_of(store) if "recipe" in settings else None


def report_of(
    store: ResultStore, result: Found, runs: Sequence[RunMetrics] = (), log: KnobLog | None = None
) -> "StudyReport":
    """Return the report of a study; a study of knobs has its ``log``, by default the stored one."""
    measurements, header = store.read(), store.read_study()
    if isinstance(result, SweepResult):
        from joulelab.analysis.sweep_report import sweep_report

        return sweep_report(result, measurements, header=header, traces=store.traces)
    if isinstance(result, KnobResult):
        from joulelab.analysis.knob_report import knob_report

        if (log := log or read_knob_log(store)) is None:
            raise TrackingError(f"{store.folder} must hold {knob_grid.LOG}, which was not written.")
        return knob_report(result, log, measurements, header=header)
    from joulelab.analysis.search_report import search_report

    return search_report(result, measurements, header=header, traces=store.traces, runs=runs)


def report_anew(
    store: ResultStore,
    *,
    max_rows: int = 20,
    paper: bool = False,
    reference_temperature_c: float | None = None,
) -> tuple[Path, ...]:
    """Write the files of a study again, print what it found, and return its files for papers.

    Searches and studies of knobs leave a log when they end, or are interrupted; a sweep needs none.
    With a ``reference_temperature_c`` energies of a sweep are those at that temperature. Raises
    ConfigError if there is a reference temperature and no sweep that tells what it does;
    TrackingError if it is of another kind, has not ended, or cannot be read.
    """
    found = _by_header(store) or _found(store, reference_temperature_c)
    if reference_temperature_c is not None and not isinstance(found, SweepResult):
        raise ConfigError(f"A reference temperature is for sweeps, which {store.folder} is not.")
    if isinstance(found, SweepResult | KnobResult | SearchResult):
        known = store.read_answer()
        report = report_of(store, found, known.runs if known else ())
    else:
        report = found
    report.write(store)
    report.print(store.folder, max_rows=max_rows)
    return report.write_for_papers(store.folder, max_rows=max_rows) if paper else ()


def _found(store: ResultStore, reference_c: float | None) -> Found:
    """Analyse a study anew, and write its log as it is written now."""
    measurements = store.read()
    if (search := read_log(store)) is not None:
        found = result_of(search, measurements)
        store.write_file(search_result.LOG, log_of(found))
        return found
    if (knobs := read_knob_log(store)) is not None:
        store.write_file(knob_grid.LOG, knobs)
        return _of_knobs(knobs, measurements)
    if (store.folder / search_result.ASKED).exists():
        raise TrackingError(
            f"{store.folder} must hold a search that has ended, but it has not: `joulelab watch` "
            "shows what it has so far; go on with it with --study."
        )
    if (objective := _objective(store)) is not None:
        return analyse_sweep(measurements, objective, reference_temperature_c=reference_c)
    raise TrackingError(
        f"{store.folder} must hold a sweep, or the log of a search ({search_result.LOG}) or of a "
        f"study of knobs ({knob_grid.LOG}), but does not: it has not ended (go on with it with "
        "--study), is of another kind, or of a version that wrote none."
    )


def _of_knobs(log: KnobLog, measurements: Sequence[Measurement]) -> KnobResult:
    return analyse_knobs(measurements, log.study.grid, quality=log.quality)


def _objective(store: ResultStore) -> str | None:
    """Return what a sweep was to have low; ``None`` of other studies."""
    header = store.read_study()
    objective = None if header is None else dict(header.settings).get("objective")
    return objective if isinstance(objective, str) else None


def live_page(folder: Path) -> str:
    """Return the page of the study in a results folder, as one HTML file that needs nothing else.

    What there is nothing to say of yet is left out, and the page says why. Raises TrackingError if
    the results cannot be read.
    """
    from joulelab.analysis.study_report import nothing_to_report

    store, state, holder = ResultStore(folder, "watch"), read_state(folder), holder_of(folder)
    measurements, header = store.read(), store.read_study()
    try:
        report = _so_far(store, measurements)
    except (ConfigError, MeasurementError) as error:
        report = nothing_to_report(str(error), measurements, header)
    return report.page(
        "live.html.j2",
        title=folder.name if header is None else header.name,
        holder=holder,
        state=state,
    )


def _so_far(store: ResultStore, measurements: Sequence[Measurement]) -> "StudyReport":
    """Return the report of what a study has measured.

    Raises ConfigError or MeasurementError if there is nothing to report yet.
    """
    if not measurements:
        raise ConfigError("Nothing was measured yet.")
    if (report := _by_header(store)) is not None:
        return report
    if (name := _newest(store.folder, search_result.ASKED, search_result.LOG)) is not None:
        return report_of(store, search_so_far(store, measurements, name))
    name = _newest(store.folder, knob_grid.ASKED, knob_grid.LOG)
    if name is not None and (log := read_knob_log(store, name=name)) is not None:
        return report_of(store, _of_knobs(log, measurements), log=log)
    return report_of(store, analyse_sweep(measurements, _objective(store) or "edp"))


def _newest(folder: Path, *names: str) -> str | None:
    """Return which of these files was written last: what is asked for, or what was found."""
    changed_ns = {n: (folder / n).stat().st_mtime_ns for n in names if (folder / n).exists()}
    return max(changed_ns, key=lambda name: changed_ns[name], default=None)


def search_so_far(
    store: ResultStore, measurements: Sequence[Measurement], name: str = search_result.ASKED
) -> SearchResult:
    """Return what a search has found so far in its measurements, whether it goes on or not.

    ``name`` is the file with what is asked for, or of a search that has ended with its trials.
    Raises ConfigError if nothing was searched for there, or not even one trial has ended;
    MeasurementError if the baseline was not measured yet, or nothing ties it to the best;
    TrackingError if the file cannot be read.
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
