"""A search whose driver may be killed at any moment and started again."""

import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import ray
from cluster_study import cluster_study
from paced_device import paced
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.listed import Random
from joulelab.searching.strategies.model_guided import ModelGuided
from joulelab.study.budget import Budget
from joulelab.study.run import run_asked
from joulelab.study.search_queue import Search, Sentinel
from joulelab.tracking.addresses import embedded_uri
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import NAMESPACE, on_loopback

PROCEDURE = Procedure(
    idle_s=1.0, settle_s=0.2, warmup_min_s=1.0, warmup_max_s=60.0, window_s=1.0, limit_s=10.0
)
GPU = "a100_sxm"
NUM_TRIALS = 20
PACE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of search.

    Attributes:
        algorithm: What chooses.
        num_gpus: Simulated GPUs.
        tracked: Whether MLflow is told.
    """

    algorithm: Literal["random", "model-guided"]
    num_gpus: int
    tracked: bool = False

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.num_gpus}"


CASES = (
    Case(algorithm="model-guided", num_gpus=1),
    Case(algorithm="random", num_gpus=2),
    Case(algorithm="model-guided", num_gpus=3),
    Case(algorithm="random", num_gpus=1, tracked=True),
)


class Listening(Strategy):
    """A strategy whose every outcome is noted.

    Args:
        strategy: The one that chooses.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.told: Counter[str] = Counter()

    @override
    def ask(self) -> Configuration | None:
        return self._strategy.ask()

    @override
    def tell(self, outcome: Outcome) -> None:
        self.told[outcome.candidate.config_hash] += 1
        self._strategy.tell(outcome)

    @property
    @override
    def is_done(self) -> bool:
        return self._strategy.is_done


@cache
def problem() -> Problem:
    """Return what is searched for: matrix products on an A100, by clock and number format."""
    axes = {"sm_clock_mhz": GPUS[GPU].study_clocks_mhz, "precision": ("fp16", "tf32")}
    return Problem(space=SearchSpace("gemm", axes), objective=OBJECTIVES["edp"])


def made(case: Case, seed: int) -> tuple[Strategy, ModelGuided | None]:
    """Return what chooses in a search, and the model in it if there is one."""
    if case.algorithm == "random":
        return Random(problem(), seed=seed), None
    model = ModelGuided(problem(), seed=seed)
    return Race(problem(), model), model


def drive(folder: Path, number: int, address: str) -> None:
    """Run search ``number`` to its end, or as far as it gets."""
    log = os.open(folder / "driver.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    case = CASES[number % len(CASES)]
    chooses = Listening(made(case, number)[0])
    sentinel = None
    if case.algorithm == "model-guided":
        sentinel = Sentinel(configuration=problem().space.baseline)
    with on_loopback():
        ray.init(
            address=address,
            namespace=NAMESPACE,
            runtime_env=paced(PACE),
            log_to_driver=False,
        )
    events = (folder / "events").open("a", buffering=1)
    cluster = cluster_study(
        sites=simulated_sites(GPU, case.num_gpus, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=PROCEDURE,
        tracking_uri=embedded_uri(folder.parent) if case.tracked else None,
        guard_socket=folder.parent / "guard.sock",
        on_event=lambda event: print(type(event).__name__, file=events),
    )
    search = Search(
        study=folder.name,
        strategy=chooses,
        budget=Budget(num_trials=NUM_TRIALS),
        sentinel=sentinel,
    )
    summary = run_asked(search, cluster)
    if not (summary.study.quarantined or summary.study.unfinished):
        print("Ended", file=events)
        done = {"told": chooses.told, "stopped_by": summary.stopped_by}
        (folder / "done").write_text(json.dumps(done))
