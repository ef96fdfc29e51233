"""What outputs are worth, found out beside a GPU before a search begins on it."""

from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayTaskError

from joulelab.core.configuration import Configuration
from joulelab.errors import JouleLabError
from joulelab.search.kept import Qualities
from joulelab.search.scores import Scores, score_space
from joulelab.search.space import SearchSpace
from joulelab_actors.placement import Site
from joulelab_actors.search.desk import Scorer


def score_beside(site: Site, space: SearchSpace, *, metric: str | None = None) -> Scores:
    """Score what every cell of ``space`` puts out, each kind of outputs once.

    It is done in a process of its own beside the GPU, which ends with it: what computes while a
    GPU is measured would be measured with it. Scores are kept on that node's disk.

    Args:
        site: The GPU that computes, where it is a real one; else the processor of its node does.
        space: What is searched.
        metric: Registry name of the metric; ``None`` for the first one of the workload.

    Raises:
        ConfigError: If the outputs cannot be scored, or the baseline's have no score.
    """
    make_remote: Any = ray.remote
    task = make_remote(max_calls=1)(score_space).options(**site.actor_options())
    try:
        scores: Scores = ray.get(task.remote(space, metric=metric))
    except RayTaskError as error:
        if isinstance(error.cause, JouleLabError):
            raise error.cause from None
        raise
    return scores


def lookup(qualities: Qualities) -> Scorer:
    """Return the scorer that looks up what is known of the quality beforehand."""

    def score(configuration: Configuration) -> tuple[float, float | None] | None:
        kept = qualities.get(configuration.knobs)
        return None if kept is None else (kept.retention, kept.u)

    return score


def words(space: SearchSpace, scores: Scores) -> str:
    """Say what each kind of outputs keeps of the baseline's quality, a line for each."""
    lines = [f"What is kept of the baseline's {scores.metric} on {scores.data}:"]
    named: dict[str, list[Mapping[str, object]]] = {}
    for cell, kept in scores.kept.items():
        share = f"{100 * kept.retention:.2f} %"
        share += "" if kept.u is None else f" ± {100 * kept.u:.2f} %"
        named.setdefault(f"{kept.outputs} {share}", []).append(dict(cell))
    for key, cells in named.items():
        lines.append(f"  {_common(space, cells)}: {key.partition(' ')[2]}")
    reasons: dict[str, list[Mapping[str, object]]] = {}
    for cell, reason in scores.reasons.items():
        reasons.setdefault(reason, []).append(dict(cell))
    lines += [f"  {_common(space, c)}: left out. {reason}" for reason, c in reasons.items()]
    return "\n".join(lines)


def _common(space: SearchSpace, cells: list[Mapping[str, object]]) -> str:
    """Name the searched knobs in which ``cells`` agree."""
    shared = {
        name: cells[0][name]
        for name in space.axes
        if name in cells[0] and len({cell[name] for cell in cells}) == 1
    }
    return ", ".join(f"{name} {value}" for name, value in shared.items()) or "all"
