"""Measure every workload in every number format at the driver's own clocks, slice by slice."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from joulelab.analysis.cell_report import matrix_table
from joulelab.analysis.conclude import conclude_matrix
from joulelab.analysis.matrix import Matrix, configurations
from joulelab.core.bounds import MOST_S, check_positive
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.plan import check_plan
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.errors import INTERRUPTED, ConfigError
from joulelab.study.schedule import MACHINERY
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study_lock import StudyLock
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import require_count
from joulelab_actors.laboratory import Laboratory

_BETWEEN_S = 0.6
"""Waiting for the counter's edges before and after the windows of a phase."""
_WIDTH = 150


def check_asked(batches: Sequence[int], *, plan: bool, table: bool) -> None:
    """Refuse what no workload takes, and two wishes of which one would be forgotten.

    Raises:
        ConfigError: Says which.
    """
    for batch in batches:
        require_count("A batch", batch)
    if plan and table:
        raise ConfigError("--plan and --table exclude each other; give one of them.")


def measure_matrix(
    matrix: Matrix,
    lab: Laboratory,
    *,
    settings: object,
    repeats: int = 1,
    again: bool = False,
    budget_s: float | None = None,
) -> int:
    """Measure the cells of ``matrix`` that were not tried yet, conclude and print.

    No setter of a GPU is called. Repeats of a cell follow each other, since a network is prepared
    as long as it is measured. A cell that cannot be prepared or run is a row with its reason.
    ``lab`` names the study to go on with, ``again`` tries what gave no valid measurement once more,
    and ``budget_s`` is filled with cells by their estimates.

    Returns:
        The exit code: 0 if every cell has figures or cannot have any, 130 if it was interrupted.

    Raises:
        ConfigError: If there is nothing to measure, or a budget too small for the next cell.
    """
    lab = replace(lab, observe_only=True)
    check_positive("budget_s", budget_s, MOST_S)
    _trials("", matrix, repeats)  # refused, if at all, before Ray starts
    conclude, interrupted = partial(conclude_matrix, matrix=matrix), False
    with lab.open() as sites:
        folder = lab.folder("workloads", sites)
        known = ResultStore(folder).read()
        todo = rest_of_matrix(_trials(folder.name, matrix, repeats), known, again=again)
        if chosen := _within(todo, matrix, lab.procedure, budget_s):
            ended = lab.carry_out(chosen, sites, folder, settings=settings, conclude=conclude)
            interrupted = ended.interrupted
    code = report_matrix(matrix, replace(lab, study=folder.name))
    return INTERRUPTED if interrupted else code


def report_matrix(matrix: Matrix, lab: Laboratory, *, console: Console | None = None) -> int:
    """Write and print what a study has measured of ``matrix``; needs no GPU.

    Returns:
        The exit code: 0 if every cell has figures or cannot have any.

    Raises:
        ConfigError: If ``lab`` names no study, one without results, or one that is under way.
    """
    if lab.study is None:
        raise ConfigError("A table needs the study that it is of; name it by --study.")
    store = ResultStore(lab.study_dir(lab.study))
    if store.read_study() is None:
        raise ConfigError(f"There are no results of study {lab.study!r} in {lab.results_dir}.")
    with StudyLock(store.folder):
        rows = conclude_matrix(store, matrix)
    console = console or Console()
    console.width = max(console.width, _WIDTH)
    console.print(matrix_table(rows))
    answer = store.read_answer()
    if answer is not None:
        files = [f"  {store.folder / file}" for file in answer.files]
        console.print(
            "\n".join([answer.note, *files]), soft_wrap=True, highlight=False, markup=False
        )
    return 0 if all(row.outcome not in {"invalid", "missing"} for row in rows) else 1


def plan_lines(matrix: Matrix, procedure: Procedure, *, repeats: int) -> list[str]:
    """List every cell with the time that it will take, roughly, and the sum."""
    lines, total_s = [], 0.0
    check_plan(repeats)
    for variant, grid in matrix:
        for case in grid.cases:
            cell = f"{variant.workload:17}{variant.name:17}{case.label:16}"
            if case.configuration is None:
                lines.append(f"{cell}     -  {case.refusal}")
                continue
            took_s = estimate_s(case.configuration, variant.prepare_s, procedure, repeats)
            total_s += took_s
            lines.append(
                f"{cell}{took_s:5.0f} s  {' '.join(WORKLOADS.of(case.configuration).phases)}"
            )
    num = len(configurations(matrix))
    return [*lines, f"{num} cells to measure, some {total_s:.0f} s ({total_s / 60:.0f} min)."]


def estimate_s(
    configuration: Configuration, prepare_s: float, procedure: Procedure, repeats: int = 1
) -> float:
    """Return how long a cell takes, roughly: what its runs take beyond the windows is left out."""
    windows_s = procedure.min_windows * procedure.window_s
    phase_s = procedure.warmup_max_s + windows_s + _BETWEEN_S
    around_s = procedure.settle_s + procedure.idle_s + _BETWEEN_S
    return prepare_s + repeats * (around_s + len(WORKLOADS.of(configuration).phases) * phase_s)


def rest_of_matrix(
    trials: Iterable[Trial], known: Sequence[Measurement], *, again: bool
) -> list[Trial]:
    """Return the trials that were not tried, in their order; those that failed too if ``again``.

    What cannot run is not tried twice. What only the machinery failed at counts as not tried.
    """
    tried: set[tuple[str, Configuration]] = set()
    for measurement in known:
        reasons = {finding.reason for finding in measurement.findings}
        over = not reasons or reasons == {"unsupported"} if again else not reasons & MACHINERY
        if over:
            tried.add((measurement.trial, measurement.configuration))
    return [trial for trial in trials if (trial.name, trial.configuration) not in tried]


def _trials(study: str, matrix: Matrix, repeats: int) -> list[Trial]:
    """Plan one trial for each repeat of each cell; of equal cells of two variants, one is kept."""
    found = dict.fromkeys(configurations(matrix))
    if not found:
        raise ConfigError("There is nothing to measure: the workloads refuse every cell.")
    check_plan(repeats, num_configurations=len(found))
    return [
        Trial(
            study=study,
            name=f"{each.workload}-{each.config_hash[:8]}-r{repeat}",
            configuration=each,
            repeat=repeat,
        )
        for each in found
        for repeat in range(repeats)
    ]


def _within(
    todo: Sequence[Trial], matrix: Matrix, procedure: Procedure, budget_s: float | None
) -> list[Trial]:
    if budget_s is None:
        return list(todo)
    prepare_s = {
        case.configuration: variant.prepare_s for variant, grid in matrix for case in grid.cases
    }
    chosen, sum_s = [], 0.0
    for trial in todo:
        sum_s += estimate_s(trial.configuration, prepare_s[trial.configuration], procedure)
        if sum_s > budget_s:
            break
        chosen.append(trial)
    if todo and not chosen:
        raise ConfigError(f"budget_s must fit the next cell, some {sum_s:.0f} s, got {budget_s}.")
    return chosen
