"""Studies at the driver's own clocks: of knobs, and of workloads in every number format."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro
from rich.console import Console

from joulelab.analysis.cell_report import matrix_table
from joulelab.analysis.knob_grid import ASKED, Axis, KnobGrid, KnobLog, KnobStudy, knob_grid
from joulelab.analysis.knob_study import KnobResult
from joulelab.analysis.matrix import Matrix, configurations
from joulelab.core.bounds import MOST_S, check_positive
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.plan import check_plan, plan_sweep
from joulelab.core.procedure import Procedure
from joulelab.core.quality import Quality
from joulelab.core.trial import Trial
from joulelab.errors import INTERRUPTED, ConfigError
from joulelab.study.conclude import conclude_knobs, conclude_matrix, report_of
from joulelab.study.kind import MATRIX, study_of
from joulelab.study.schedule import MACHINERY
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study_lock import StudyLock
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import require_count
from joulelab.workloads.network import NetworkWorkload
from joulelab_actors.laboratory import Laboratory

_BETWEEN_S = 0.6  # waiting for the counter's edges before and after the windows of a phase
_WIDTH = 150


def check_asked(batches: Sequence[int], *, plan: bool, table: bool) -> None:
    """Refuse what no workload takes, and two wishes of which one would be forgotten.

    Raises ConfigError, which says which.
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
    and ``budget_s`` is filled with cells by their estimates. Returns the exit code: 0 if every cell
    has figures or cannot have any, 130 if it was interrupted. Raises ConfigError if there is
    nothing to measure, or a budget too small for the next cell.
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
            ended = lab.carry_out(
                chosen, sites, folder, settings=settings, kind=MATRIX, conclude=conclude
            )
            interrupted = ended.interrupted
    code = report_matrix(matrix, replace(lab, study=folder.name))
    return INTERRUPTED if interrupted else code


def report_matrix(matrix: Matrix, lab: Laboratory) -> int:
    """Write and print what a study has measured of ``matrix``; needs no GPU.

    Returns the exit code: 0 if every cell has figures or cannot have any. Raises ConfigError if
    ``lab`` names no study, one without results, or one that is under way.
    """
    if lab.study is None:
        raise ConfigError("A table needs the study that it is of; name it by --study.")
    store = ResultStore(lab.study_dir(lab.study))
    if store.read_study() is None:
        raise ConfigError(f"There are no results of study {lab.study!r} in {lab.results_dir}.")
    with StudyLock(store.folder):
        rows = conclude_matrix(store, matrix)
    console = Console()
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


SENTINEL_EVERY = 10

Settings = TypeVar("Settings")
ScoreCases = Callable[[], tuple[tuple[Quality, ...], ...]]
"""Returns what the outputs of each case of the grid are worth."""


@dataclass(frozen=True, kw_only=True)
class KnobOptions(Generic[Settings]):
    """What every study of knobs lets its users choose.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs, at the driver's own clocks.
        repeats: Blocks; each holds every combination once in its own random order.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    repeats: int = 3
    order_seed: int = 0

    @property
    def knobs(self) -> dict[str, KnobValue]:
        """Knobs of the workload."""
        return asdict(self.workload)  # type: ignore[call-overload,no-any-return]

    def grid(self, axes: Sequence[Axis], *, whole: str = "") -> KnobGrid:
        """Combine the values of ``axes`` with the workload's own knobs."""
        return knob_grid(WORKLOADS.name_of(self.workload), self.knobs, axes, whole=whole)

    def measure(self, study: KnobStudy, kind: str, *, score: ScoreCases = tuple) -> int:
        """Measure a grid of knobs, conclude and print; no setter of a GPU is called.

        What a GPU cannot run becomes a row with its reason. The first configuration that the
        workload takes is measured again between the others, so that drift is seen and boards are
        comparable. Those that run the same network follow each other, so that it is loaded once.
        ``kind`` begins the study's name; ``score`` is called once all is measured. Returns the exit
        code: 0 if every combination has figures or cannot have any, 130 if it was interrupted.
        Raises ConfigError if the workload refuses every combination.
        """
        lab = replace(self.lab, observe_only=True)
        asked = study.grid.configurations
        check_plan(self.repeats, num_configurations=len(asked))
        results: list[KnobResult] = []

        def conclude(store: ResultStore) -> None:
            results.append(conclude_knobs(store, study))
            if quality := score():  # takes minutes, and costs nobody the answer that there is
                results.append(conclude_knobs(store, study, quality))

        with lab.open() as sites:
            folder = lab.folder(f"{kind}-{study.grid.workload}", sites)
            trials = plan_sweep(
                folder.name,
                asked,
                repeats=self.repeats,
                sentinel=asked[0],
                sentinel_every=SENTINEL_EVERY,
                seed=self.order_seed,
                together=network_of,
            )
            summary = lab.carry_out(
                trials,
                sites,
                folder,
                settings=self,
                kind=study_of(study.about),
                begin=lambda store: store.write_file(ASKED, KnobLog(study=study)),
                conclude=conclude,
            )
        report_of(ResultStore(folder), results[-1]).print(folder)
        tracked = lab.where_tracked(summary)
        Console().print(f"\n{tracked}", soft_wrap=True, highlight=False, markup=False)
        if summary.interrupted:
            return summary.exit_code
        return 0 if results[-1].complete else 1


def network_of(configuration: Configuration) -> Hashable:
    """Return what tells the network of ``configuration`` from others."""
    workload = WORKLOADS.of(configuration)
    return workload.network_key if isinstance(workload, NetworkWorkload) else configuration.knobs
