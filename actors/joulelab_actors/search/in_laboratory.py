"""A search with the settings that all experiments share."""

from collections.abc import Sequence

from joulelab.analysis.search_conclude import print_search
from joulelab.analysis.search_result import SearchMethod, SearchResult
from joulelab.search.evidence import Problem
from joulelab.search.race import NUM_CONFIRMING, Race
from joulelab.tracking.store import ResultStore
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site
from joulelab_actors.search.algorithms import strategy_of
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.desk import Sentinel
from joulelab_actors.search.progress import SearchProgress
from joulelab_actors.search.run import SearchSummary, run_search
from joulelab_actors.search.scoring import lookup
from joulelab_actors.search.tell import conclude_search


def search_in(
    lab: Laboratory,
    sites: Sequence[Site],
    problem: Problem,
    *,
    study: str,
    settings: object,
    algorithm: str = "model-guided",
    budget: Budget | None = None,
    most_repeats: int = 5,
    sentinel_every: int = 10,
    seed: int = 0,
) -> SearchSummary:
    """Search for the best configuration of ``problem``; print and write what was found.

    Every GPU measures the baseline to begin with and again and again, which ties the boards
    together.

    Args:
        lab: Where it runs.
        sites: Its GPUs.
        problem: What is searched for.
        study: Name of the study.
        settings: Settings of the experiment, for the study's header.
        algorithm: What chooses new configurations.
        budget: When to stop at the latest.
        most_repeats: Measurements of one configuration, as long as it may be the best.
        sentinel_every: Trials of a GPU between two of the baseline.
        seed: Seed of the algorithm.

    Raises:
        UnknownNameError: If there is no such algorithm.
        MeasurementError: If what was measured allows no answer.
    """
    screening = strategy_of(algorithm, problem, seed=seed)
    budget = budget or Budget()
    strategy = Race(problem, screening, most_repeats=most_repeats, num_trials=budget.num_trials)
    progress = SearchProgress(problem, budget)
    results: list[SearchResult] = []

    def conclude(store: ResultStore, stopped_by: str) -> None:
        method = SearchMethod(
            algorithm=algorithm,
            seed=seed,
            budget=budget.words,
            most_repeats=most_repeats,
            stopped_by=stopped_by,
            num_confirming=NUM_CONFIRMING if budget.num_trials else 0,
        )
        results.append(conclude_search(store, strategy.evidence, progress.course, method))

    with progress:
        summary = run_search(
            strategy,
            study=study,
            sites=sites,
            results_dir=lab.study_dir(study),
            procedure=lab.procedure,
            budget=budget,
            sentinel=Sentinel(configuration=problem.space.baseline, every=sentinel_every),
            score=lookup(problem.qualities),
            observe_only=lab.observe_only,
            tracking_uri=lab.store_uri,
            settings=settings,
            guard_socket=lab.guard_socket,
            conclude=conclude,
            on_event=progress,
            follow=progress.follow,
        )
    print_search(lab.study_dir(study), results[0])
    return summary
