"""What outputs are worth, found beside a GPU of the cluster."""

from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from joulelab.devices.choice import is_hardware
from joulelab.errors import JouleLabError
from joulelab.quality.subject import ScoreCache
from joulelab.searching.scores import Scores, score_space
from joulelab.searching.space import SearchSpace
from joulelab.study.progress import announced
from joulelab.study.resume import check_cost
from joulelab.workloads import WORKLOADS
from joulelab.workloads.parcel import Parcel, pack, unpack
from joulelab_actors.placement import Site


def score_beside(
    site: Site, space: SearchSpace, *, metric: str | None = None, folder: Path
) -> Scores:
    """Score what every cell of ``space`` puts out, each kind of outputs once.

    It is done in a process of its own beside the GPU, which ends with it: what computes while a GPU
    is measured would be measured with it. A simulated GPU leaves it to the processor of its node.
    Scores are kept on that node's disk for all studies; those of a user's program, which may read
    files that nobody knows of, for this study alone, in its ``folder``. ``metric`` is as for
    :func:`score_space`. Raises ConfigError if the outputs cannot be scored, or the baseline's have
    no score; or if they could not be searched: a simulated GPU needs a cost.
    """
    check_cost(space.baseline, [site])
    make_remote: Any = ray.remote
    task = make_remote(max_calls=1)(_score).options(**_scoring_options(site))
    programs = pack(WORKLOADS.programs, {space.workload})
    try:
        with announced("Scoring what is put out"):
            scores: Scores = ray.get(task.remote(programs, space, metric, str(folder)))
    except RayTaskError as error:
        if isinstance(error.cause, JouleLabError):
            raise error.cause from None
        raise
    return scores


def _scoring_options(site: Site) -> dict[str, Any]:
    """Return the options that put a task beside a GPU: a real one computes, else the processor."""
    if is_hardware(site.address):
        return site.actor_options()
    return site.actor_options() | {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}}


def _score(
    programs: tuple[Parcel, ...], space: SearchSpace, metric: str | None, folder: str
) -> Scores:
    unpack(WORKLOADS.programs, programs)
    kept = [Path(folder) / "scores" / program.digest for program in programs]
    return score_space(space, metric=metric, cache=ScoreCache(kept[0]) if kept else None)
