"""The last step of a study: its answer, with report, plots and table, in the results folder.

A study can be reported once more from its folder alone, whatever its kind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.analysis import knob_grid, search_result
from joulelab.analysis.knob_grid import KnobLog, KnobStudy, read_knob_log
from joulelab.analysis.knob_study import KnobResult, analyse_knobs
from joulelab.analysis.matrix import Matrix, MatrixRow, matrix_in, matrix_rows
from joulelab.analysis.search_result import SearchResult, log_of, read_log, result_of
from joulelab.analysis.sweep import SweepResult, analyse_sweep
from joulelab.core.quality import Quality
from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, RunMetrics

if TYPE_CHECKING:  # matplotlib takes a second
    from joulelab.analysis.study_report import StudyReport


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


def write_search(
    store: ResultStore, result: SearchResult, runs: Mapping[str, Mapping[str, float]]
) -> Answer:
    """Write answer, log, report, plots and table of a search into its results folder.

    ``runs`` are numbers that only the whole search knows of a measurement, by its id. Raises
    TrackingError if the results cannot be read or the answer not be written.
    """
    known = tuple(
        RunMetrics(measurement_id=name, values=tuple(values.items()))
        for name, values in runs.items()
    )
    store.write_file(search_result.LOG, log_of(result))
    return report_of(store, result, known).write(store)


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


def report_by_header(store: ResultStore) -> "StudyReport | None":
    """Return the report of a matrix or a baseline, whose headers name it; ``None`` of all others.

    Raises ConfigError if there is nothing to report; TrackingError if the results cannot be read.
    """
    header = store.read_study()
    settings = {} if header is None else dict(header.settings)
    if (matrix := matrix_in(settings)) is not None:
        return _of_matrix(store, matrix, matrix_rows(matrix, store.read()))
    return baseline_of(store) if "recipe" in settings else None


def report_of(
    store: ResultStore,
    result: SweepResult | KnobResult | SearchResult,
    runs: Sequence[RunMetrics] = (),
) -> "StudyReport":
    """Return the report of a study, whose log has been written if its kind has one."""
    measurements, header = store.read(), store.read_study()
    if isinstance(result, SweepResult):
        from joulelab.analysis.sweep_report import sweep_report

        return sweep_report(result, measurements, header=header, traces=store.traces)
    if isinstance(result, KnobResult):
        from joulelab.analysis.knob_report import knob_report

        if (log := read_knob_log(store)) is None:
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
    """Write the files of a study again, print what it found, and return its panels for papers.

    Searches and studies of knobs leave a log when they end, or are interrupted; a sweep needs none.
    With a ``reference_temperature_c`` energies of a sweep are those at that temperature. Raises
    ConfigError if there is a reference temperature and no sweep that tells what it does;
    TrackingError if it is of another kind, has not ended, or cannot be read.
    """
    found = report_by_header(store) or _result_of(store, reference_temperature_c)
    if reference_temperature_c is not None and not isinstance(found, SweepResult):
        raise ConfigError(f"A reference temperature is for sweeps, which {store.folder} is not.")
    if isinstance(found, SweepResult | KnobResult | SearchResult):
        known = store.read_answer()
        report = report_of(store, found, known.runs if known else ())
    else:
        report = found
    report.write(store)
    report.print(store.folder, max_rows=max_rows)
    return report.write_panels(store.folder) if paper else ()


def _result_of(
    store: ResultStore, reference_c: float | None
) -> SweepResult | KnobResult | SearchResult:
    """Analyse a study anew, and write its log as it is written now."""
    measurements, header = store.read(), store.read_study()
    if (search := read_log(store)) is not None:
        found = result_of(search, measurements)
        store.write_file(search_result.LOG, log_of(found))
        return found
    if (knobs := read_knob_log(store)) is not None:
        store.write_file(knob_grid.LOG, knobs)
        return analyse_knobs(measurements, knobs.study.grid, quality=knobs.quality)
    if (store.folder / search_result.ASKED).exists():
        raise TrackingError(
            f"{store.folder} must hold a search that has ended, but it has not: `joulelab watch` "
            "shows what it has so far; go on with it with --study."
        )
    objective = None if header is None else dict(header.settings).get("objective")
    if isinstance(objective, str):
        return analyse_sweep(measurements, objective, reference_temperature_c=reference_c)
    raise TrackingError(
        f"{store.folder} must hold a sweep, or the log of a search ({search_result.LOG}) or of a "
        f"study of knobs ({knob_grid.LOG}), but does not: it has not ended (go on with it with "
        "--study), is of another kind, or of a version that wrote none."
    )
