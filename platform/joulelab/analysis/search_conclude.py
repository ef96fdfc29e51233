"""The last step of a search: its answer, with report, plots and table, in the results folder."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from joulelab.analysis.search_chart import chart_point
from joulelab.analysis.search_log import log_of, write_log
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_table import search_table, write_search_csv
from joulelab.analysis.search_wording import sentence
from joulelab.analysis.wording import board_words
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, RunMetrics

REPORT, TABLE = "report.html", "search.csv"


def write_search(
    store: ResultStore, result: SearchResult, runs: Mapping[str, Mapping[str, float]]
) -> Answer:
    """Write answer, log, report, plots and table of a search into its results folder.

    Args:
        store: The search's results.
        result: What was found.
        runs: Numbers that only the whole search knows of a measurement, by its id.

    Raises:
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.search_plot import can_plot_search, save_search_plots
    from joulelab.analysis.search_report import write_search_report

    plots = save_search_plots(result, store.folder) if can_plot_search(result) else ()
    write_search_csv(result, store.folder / TABLE)
    write_log(store, log_of(result))
    write_search_report(result, store.read(), store.folder / REPORT, header=store.read_study())
    answer = Answer(
        note=_note(result),
        summary=tuple(_summary(result)),
        files=(REPORT, TABLE, *(path.name for path in plots)),
        chart=tuple(map(chart_point, result.steps)),
        runs=tuple(
            RunMetrics(measurement_id=name, values=tuple(values.items()))
            for name, values in runs.items()
        ),
    )
    store.write_answer(answer)
    return answer


def print_search(
    folder: Path,
    result: SearchResult,
    *,
    max_rows: int | None = 20,
    console: Console | None = None,
) -> None:
    """Print what a search found: a table, the answer, and where the rest is.

    Args:
        folder: The search's results folder.
        result: What was found.
        max_rows: Rows of the table; ``None`` for all that were tried.
        console: Where to print; by default the standard output.

    Raises:
        TrackingError: If the results cannot be read.
    """
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 100)
    workload = result.problem.space.workload
    console.print(f"\n[bold]{workload}[/] on {board_words(result.boards[0])}")
    table = search_table(result, console, max_rows=max_rows, more=f"{TABLE} has all")
    console.print(table)
    console.print(_note(result), style="bold", highlight=False, markup=False)
    answer = ResultStore(folder).read_answer()
    for file in answer.files if answer is not None else ():
        console.print(f"  {folder / file}", soft_wrap=True, highlight=False)


def _note(result: SearchResult) -> str:
    return sentence(result.answer, result.problem, stopped_by=result.method.stopped_by)


def _summary(result: SearchResult) -> list[tuple[str, float]]:
    """List the answer in numbers, under the names of the vocabulary."""
    found = result.answer
    figures, space = found.best.figures, result.problem.space
    chosen = dict(zip(space.axes, space.values(found.best.configuration), strict=True))
    numbers = {name: value for name, value in chosen.items() if not isinstance(value, str | bool)}
    ratios = (
        ("energy_ratio", found.energy_ratio),
        ("time_ratio", found.time_ratio),
        ("cost_ratio", found.cost_ratio),
    )
    known = {
        **{f"best.{name}": value for name, value in numbers.items()},
        "best.energy_per_unit_j": figures.energy_j,
        "best.time_per_unit_s": figures.time_s,
        "best.retention": figures.retention,
        "best.memory_b": figures.memory_b,
        **{name: ratio.value for name, ratio in ratios},
        "num_in_set": len(found.standing.members),
        "num_trials": len(result.steps),
        "pays_after_units": found.pays_after.value if found.pays_after else None,
    }
    return [(name, float(value)) for name, value in known.items() if value is not None]
