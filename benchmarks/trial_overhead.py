#!/usr/bin/env python
"""What a trial costs beyond the measuring: Ray, the results store, and MLflow beside it.

Usage: python benchmarks/trial_overhead.py

It is the wall time on a GPU's actor between the end of one measuring and the start of the next:
storing the records durably, reporting them, and getting the next trial.
"""

import tempfile
from pathlib import Path
from statistics import median, quantiles

from cluster_study import cluster_study
from figures import Figure, print_figures

from joulelab import Configuration
from joulelab.core.plan import plan_sweep
from joulelab.core.procedure import Procedure
from joulelab.study.events import StudyEvent, TrialMeasured
from joulelab.study.run import run_trials
from joulelab.tracking.addresses import embedded_uri
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import connected

NUM_TRIALS = 200
NUM_GPUS = (1, 2)


def between_s(folder: Path, num_gpus: int) -> list[float]:
    """Run a study with tracking; return the wall time between measurings, trial by trial."""
    seen: list[float] = []

    def note(event: StudyEvent) -> None:
        if isinstance(event, TrialMeasured) and event.between_s is not None:
            seen.append(event.between_s)

    cluster = cluster_study(
        sites=simulated_sites("h200_sxm", num_gpus, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=Procedure(),
        tracking_uri=embedded_uri(folder),
        observe_only=True,
        on_event=note,
    )
    trials = plan_sweep("overhead", [Configuration.of("gemm")], repeats=NUM_TRIALS)
    run_trials(trials, cluster)
    return seen


def figures() -> list[Figure]:
    """Return the median and the 95th percentile over all trials, for each number of GPUs."""
    found = []
    with connected():
        for num_gpus in NUM_GPUS:
            with tempfile.TemporaryDirectory(prefix="jl-") as folder:
                times_s = between_s(Path(folder), num_gpus)
            found.append(
                Figure(
                    name="a trial's overhead through Ray, store and tracking (median)",
                    measured=1e3 * median(times_s),
                    promised=50,
                    unit="ms",
                    how=f"{NUM_TRIALS} trials on {num_gpus} simulated GPU(s), MLflow on; "
                    f"95th percentile {1e3 * quantiles(times_s, n=20)[-1]:.0f} ms",
                )
            )
    return found


if __name__ == "__main__":
    print_figures(figures())
