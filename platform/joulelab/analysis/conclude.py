"""The last step of a study: its answer, with report, plots and table, in the results folder."""

import re
from collections.abc import Mapping, Sequence

from joulelab.analysis.analyse import analyse_sweep
from joulelab.analysis.chart import chart_point, curve_points
from joulelab.analysis.knob_log import KnobLog, KnobStudy, write_knob_log
from joulelab.analysis.knob_study import KnobPhase, KnobResult, Panel, analyse_knobs
from joulelab.analysis.knob_table import write_knob_csv
from joulelab.analysis.knob_wording import sentence as knob_sentence
from joulelab.analysis.search_result import SearchResult, log_of, write_log
from joulelab.analysis.search_table import write_search_csv
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow
from joulelab.analysis.sweep_table import write_csv
from joulelab.analysis.wording import phase_names, sentence
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.quality import Quality
from joulelab.searching.space import SearchSpace
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer, RunMetrics

REPORT, PLOT = "report.html", "study"
SWEEP_TABLE, KNOB_TABLE, SEARCH_TABLE = "sweep.csv", "study.csv", "search.csv"


def conclude_sweep(store: ResultStore, objective: str = "edp") -> SweepResult:
    """Analyse a sweep and write answer, report, plots and table into its results folder.

    Raises:
        ConfigError: If there is nothing to analyse, or no such objective.
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.figure_file import save_png_and_svg
    from joulelab.analysis.plots import can_plot, phase_figure
    from joulelab.analysis.report import write_report

    measurements = store.read()
    result = analyse_sweep(measurements, objective)
    names = file_names(result)
    named = list(zip(names, result.phases, strict=True))
    plots = [
        path.name
        for name, phase in named
        if can_plot(phase)
        for path in save_png_and_svg(phase_figure(phase), store.folder / f"sweep-{name}")
    ]
    write_csv(result, store.folder / SWEEP_TABLE)
    write_report(
        result,
        measurements,
        store.folder / REPORT,
        header=store.read_study(),
        traces=store.traces,
    )
    prefixed = [(f"{name}." if len(names) > 1 else "", phase) for name, phase in named]
    answer = Answer(
        note=sentence(result),
        summary=tuple(pair for prefix, phase in prefixed for pair in _summary(prefix, phase)),
        files=(REPORT, SWEEP_TABLE, *plots),
        chart=tuple(
            point for prefix, phase in prefixed for point in curve_points(f"curve.{prefix}", phase)
        ),
    )
    store.write_answer(answer)
    return result


def conclude_knobs(
    store: ResultStore, study: KnobStudy, quality: Sequence[tuple[Quality, ...]] = ()
) -> KnobResult:
    """Analyse a study and write answer, log, report, plot and table into its results folder.

    ``quality`` is what the outputs of each case are worth; empty if not scored.

    Raises:
        ConfigError: If there is nothing to analyse.
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.figure_file import save_png_and_svg
    from joulelab.analysis.knob_plot import knob_figure
    from joulelab.analysis.report import knob_section, write_page

    measurements = store.read()
    result = analyse_knobs(measurements, study.grid, quality=quality)
    answer = knob_sentence(result, study.conclude)
    drawn = [phase for phase in result.main_phases if len(phase.measured) > 1]
    panels = panels_of(study, quality)
    figure = knob_figure(drawn, panels, answer) if drawn else None
    plots = save_png_and_svg(figure, store.folder / PLOT) if figure else ()
    write_knob_csv(result, store.folder / KNOB_TABLE)
    write_knob_log(store, KnobLog(study=study, quality=tuple(quality)))
    write_page(
        store.folder / REPORT,
        study=result.study,
        answer=answer,
        sections=[
            knob_section(phase, panels, number, measurements)
            for number, phase in enumerate(result.phases)
        ],
        measurements=measurements,
        header=store.read_study(),
    )
    files = (REPORT, KNOB_TABLE, *(path.name for path in plots))
    summary = tuple(pair for phase in result.phases for pair in _knob_summary(phase))
    store.write_answer(Answer(note=answer, summary=summary, files=files))
    return result


def write_search(
    store: ResultStore, result: SearchResult, runs: Mapping[str, Mapping[str, float]]
) -> Answer:
    """Write answer, log, report, plots and table of a search into its results folder.

    ``runs`` are numbers that only the whole search knows of a measurement, by its id.

    Raises:
        TrackingError: If the results cannot be read or the answer not be written.
    """
    from joulelab.analysis.figure_file import save_png_and_svg
    from joulelab.analysis.search_plot import FIGURES, can_plot_search
    from joulelab.analysis.search_report import write_search_report

    plots = [
        path.name
        for name, draw in FIGURES.items()
        if can_plot_search(result)
        for path in save_png_and_svg(draw(result), store.folder / name)
    ]
    write_search_csv(result, store.folder / SEARCH_TABLE)
    write_log(store, log_of(result))
    write_search_report(
        result,
        store.read(),
        store.folder / REPORT,
        header=store.read_study(),
        traces=store.traces,
    )
    answer = Answer(
        note=result.sentence,
        summary=tuple(_search_summary(result)),
        files=(REPORT, SEARCH_TABLE, *plots),
        chart=tuple(map(chart_point, result.steps)),
        runs=tuple(
            RunMetrics(measurement_id=name, values=tuple(values.items()))
            for name, values in runs.items()
        ),
    )
    store.write_answer(answer)
    return answer


def file_names(result: SweepResult) -> list[str]:
    """Name each phase so that a file system and MLflow take it."""
    return [re.sub(r"[^\w.=-]+", "-", name) for name in phase_names(result)]


def panels_of(study: KnobStudy, quality: Sequence[tuple[Quality, ...]]) -> tuple[Panel, ...]:
    """Return the columns of the plot: the last one shows quality where there is any."""
    return (*study.panels[:-1], "quality") if any(quality) else study.panels


def _summary(prefix: str, phase: PhaseResult) -> list[tuple[str, float]]:
    """List what a phase recommends and what it found lowest, under the vocabulary's names."""
    if phase.recommended is None or phase.lowest is None:
        return []
    best = _numbers(phase.row(phase.recommended))
    lowest = _numbers(phase.row(phase.lowest))
    known = {
        **{f"best.{prefix}{name}": value for name, value in best.items()},
        f"best.{prefix}num_in_set": len(phase.members),
        **{f"lowest.{prefix}{name}": value for name, value in lowest.items()},
    }
    return [(name, float(value)) for name, value in known.items() if value is not None]


def _numbers(row: SweepRow) -> dict[str, float | None]:
    figures = row.figures
    return {
        "sm_clock_mhz": row.point.sm_clock_mhz,
        "mem_clock_mhz": row.point.mem_clock_mhz,
        "power_limit_w": row.point.power_limit_w,
        "energy_per_unit_j": figures.energy_per_unit_j if figures else None,
        "time_per_unit_s": figures.time_per_unit_s if figures else None,
        "saving": figures.saving.value if figures and figures.saving else None,
        "slowdown": figures.slowdown.value if figures and figures.slowdown else None,
    }


def _knob_summary(phase: KnobPhase) -> list[tuple[str, float]]:
    """List what the reference and the least energy are, under the names of the vocabulary."""
    least = min(phase.measured, key=lambda m: m[1].energy_per_unit_j, default=None)
    first = next((m for m in phase.measured if m[0].case.label == phase.reference), None)
    return [
        (f"{name}.{phase.phase}.{quantity}", getattr(found[1], quantity))
        for name, found in (("best", least), ("first", first))
        if found is not None
        for quantity in ("energy_per_unit_j", "time_per_unit_s", "power_w")
    ]


def _search_summary(result: SearchResult) -> list[tuple[str, float]]:
    """List the answer in numbers, under the names of the vocabulary."""
    found = result.answer
    figures, space = found.best.figures, result.problem.space
    best, fastest = (_axis_numbers(space, c.configuration) for c in (found.best, found.fastest))
    ratios = (
        ("energy_ratio", found.energy_ratio),
        ("time_ratio", found.time_ratio),
        ("cost_ratio", found.cost_ratio),
    )
    known = {
        **{f"best.{name}": value for name, value in best.items()},
        **{f"fastest.{name}": value for name, value in fastest.items()},
        "best.energy_per_unit_j": figures.energy_j,
        "best.time_per_unit_s": figures.time_s,
        "best.retention": figures.retention,
        "best.memory_b": figures.memory_b,
        **{name: ratio.value for name, ratio in ratios},
        "num_in_set": len(found.standing.members),
        "num_unmeasured": len(found.unmeasured),
        "num_trials": len(result.steps),
        "pays_after_units": found.pays_after.value if found.pays_after else None,
    }
    return [(name, float(value)) for name, value in known.items() if value is not None]


def _axis_numbers(space: SearchSpace, configuration: Configuration) -> dict[str, KnobValue]:
    values = dict(zip(space.axes, space.values(configuration), strict=True))
    return {name: value for name, value in values.items() if not isinstance(value, str | bool)}
