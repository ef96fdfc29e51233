"""A study from its results folder once more, whatever its kind: printed, its files made anew."""

from functools import partial
from pathlib import Path

from rich.console import Console

from joulelab.analysis import knob_log, search_result
from joulelab.analysis.analyse import analyse_sweep
from joulelab.analysis.conclude import (
    PLOT,
    SEARCH_TABLE,
    SWEEP_TABLE,
    conclude_knobs,
    conclude_sweep,
    file_names,
    panels_of,
    write_search,
)
from joulelab.analysis.knob_log import KnobStudy
from joulelab.analysis.knob_study import KnobResult
from joulelab.analysis.knob_table import MINOR, knob_legend, knob_sheet
from joulelab.analysis.knob_wording import sentence as knob_sentence
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_table import search_table
from joulelab.analysis.sweep_table import fitting_table, reported_table
from joulelab.analysis.table import fitting, lay_out
from joulelab.analysis.wording import board_words, phase_names, sentence
from joulelab.errors import TrackingError
from joulelab.tracking.store import ResultStore


def report_anew(store: ResultStore, *, max_rows: int = 20, paper: bool = False) -> tuple[Path, ...]:
    """Write the files of a study again, and print what it found.

    Searches and studies of knobs leave a log when they end, or are interrupted; a sweep needs
    none.

    Raises:
        TrackingError: If it is of another kind, has not ended, or cannot be read.
    """
    if (store.folder / search_result.LOG).exists():
        return _report_search(store, max_rows, paper=paper)
    if (store.folder / knob_log.LOG).exists():
        return _report_knobs(store, paper=paper)
    if (objective := _objective_of(store)) is not None:
        return _report_sweep(store, objective, max_rows, paper=paper)
    raise TrackingError(
        f"{store.folder} must hold a sweep, or the log of a search ({search_result.LOG}) or of a "
        f"study of knobs ({knob_log.LOG}), but does not: it has not ended (go on with it with "
        "--study), is of another kind, or of a version that wrote none."
    )


def print_sweep(
    folder: Path,
    objective: str = "edp",
    *,
    max_rows: int | None = 20,
    console: Console | None = None,
) -> None:
    """Print what a sweep found: a table of each phase, the answer, and where the rest is."""
    console = console or Console()
    result = analyse_sweep(ResultStore(folder).read(), objective)
    _widen(console)
    for name, phase in zip(phase_names(result), result.phases, strict=True):
        console.print(f"\n[bold]{name}[/] on {board_words(phase.boards[0])}")
        more = f"{SWEEP_TABLE} has all"
        console.print(fitting_table(phase, console, max_rows=max_rows, more=more))
        if (reported := reported_table(phase)) is not None:
            console.print(reported)
    _print_answer(console, sentence(result), folder)


def print_knobs(
    result: KnobResult, study: KnobStudy, folder: Path, *, console: Console | None = None
) -> None:
    """Print what a study found: a table of each phase, the answer, and where the rest is."""
    console = console or Console()
    _widen(console)
    for phase in result.phases:
        console.print(f"\n[bold]{phase.title}[/] on {board_words(phase.boards[0])}")
        console.print(
            fitting(console, partial(lay_out, knob_sheet(phase), knob_legend(phase)), MINOR)
        )
    _print_answer(console, knob_sentence(result, study.conclude), folder)


def print_search(
    folder: Path,
    result: SearchResult,
    *,
    max_rows: int | None = 20,
    console: Console | None = None,
) -> None:
    """Print what a search found: a table, the answer, and where the rest is."""
    console = console or Console()
    _widen(console)
    workload = result.problem.space.workload
    console.print(f"\n[bold]{workload}[/] on {board_words(result.boards[0])}")
    more = f"{SEARCH_TABLE} has all"
    console.print(search_table(result, console, max_rows=max_rows, more=more))
    _print_answer(console, result.sentence, folder)


def _report_sweep(
    store: ResultStore, objective: str, max_rows: int, *, paper: bool
) -> tuple[Path, ...]:
    from joulelab.analysis.paper import save_sweep_panels
    from joulelab.analysis.plots import can_plot

    result = conclude_sweep(store, objective)
    print_sweep(store.folder, objective, max_rows=max_rows)
    named = zip(file_names(result), result.phases, strict=True)
    return tuple(
        path
        for name, phase in named
        if paper and can_plot(phase)
        for path in save_sweep_panels(phase, store.folder / f"sweep-{name}")
    )


def _report_search(store: ResultStore, max_rows: int, *, paper: bool) -> tuple[Path, ...]:
    from joulelab.analysis.paper import save_search_figures
    from joulelab.analysis.search_plot import can_plot_search

    result = search_result.result_of(search_result.read_log(store), store.read())
    known = store.read_answer()
    runs = {each.measurement_id: dict(each.values) for each in known.runs} if known else {}
    write_search(store, result, runs)
    print_search(store.folder, result, max_rows=max_rows)
    is_drawn = paper and can_plot_search(result)
    return save_search_figures(result, store.folder) if is_drawn else ()


def _report_knobs(store: ResultStore, *, paper: bool) -> tuple[Path, ...]:
    from joulelab.analysis.paper import save_knob_panels

    log = knob_log.read_knob_log(store)
    result = conclude_knobs(store, log.study, log.quality)
    print_knobs(result, log.study, store.folder)
    panels = panels_of(log.study, log.quality)
    return tuple(
        path
        for phase in result.main_phases
        if paper and len(phase.measured) > 1
        for path in save_knob_panels(phase, panels, store.folder / f"{PLOT}-{phase.phase}")
    )


def _objective_of(store: ResultStore) -> str | None:
    """Return what a sweep is to have little of; ``None`` for a study that is no sweep."""
    header = store.read_study()
    objective = None if header is None else dict(header.settings).get("objective")
    return objective if isinstance(objective, str) else None


def _widen(console: Console) -> None:
    """Give what is no terminal the width of one."""
    if not console.is_terminal:
        console.width = max(console.width, 100)


def _print_answer(console: Console, answer: str, folder: Path) -> None:
    console.print(answer, style="bold", highlight=False, markup=False)
    written = ResultStore(folder).read_answer()
    for file in written.files if written is not None else ():
        console.print(f"  {folder / file}", soft_wrap=True, highlight=False)
