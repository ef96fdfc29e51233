"""Scores what every cell of a search space puts out, before anything is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import RETENTION_LEVEL, Quality
from joulelab.errors import ConfigError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.evaluation import Row, evaluate
from joulelab.quality.subject import ScoreCache
from joulelab.searching.evidence import Kept, Problem
from joulelab.searching.space import POINT_AXES, Cell, SearchSpace
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the cells of a space keep of the baseline's quality by a metric on a data set.

    ``reasons`` say why it is not known of the other cells; ``notes`` why what is kept has no
    interval, where it has none: it then counts as exact.
    """

    metric: str
    data: str
    kept: Mapping[Cell, Kept] = field(default_factory=dict)
    reasons: Mapping[Cell, str] = field(default_factory=dict)
    notes: Mapping[Cell, str] = field(default_factory=dict)


def score_space(
    space: SearchSpace, *, metric: str | None = None, cache: ScoreCache | None = None
) -> Scores:
    """Score every cell of ``space`` against the baseline's, each kind of outputs once.

    ``metric`` is a registry name, by default the first one of the workload. Scores are kept in
    ``cache``, as for :func:`~joulelab.quality.evaluation.evaluate`. Raises UnknownNameError if the
    outputs of the workload cannot be scored; names those that can; ConfigError if the program does
    not say its quality, the metric cannot score it, or the baseline has no score of which others
    could keep a share.
    """
    kind, workload = SUBJECTS[space.workload], WORKLOADS[space.workload]
    metric = metric or kind.metrics[0]
    cells = dict.fromkeys([space.baseline.knobs, *space.cells])  # the reference first
    made = {cell: workload.from_knobs(dict(cell)) for cell in cells}
    names = {cell: digest(dict(kind(each).identity)) for cell, each in made.items()}
    firsts = {name: cell for cell, name in reversed(names.items())}
    asked = [cell for cell in made if firsts[names[cell]] == cell]
    rows = evaluate(
        space.workload,
        [made[cell].settings for cell in asked],
        [METRICS[metric].from_knobs({})],
        kind.read_data(None),
        cache=cache,
    )
    by_name = {names[cell]: row for cell, row in zip(asked, rows, strict=True)}
    scores = _scores(metric, {cell: (names[cell], by_name[names[cell]]) for cell in made})
    if (reason := scores.reasons.get(space.baseline.knobs)) is not None:
        raise ConfigError(f"The reference has no score. {reason}")
    return scores


def with_scores(problem: Problem, scores: Scores) -> Problem:
    """Return ``problem`` with what is known of the quality, without values that have no score.

    Raises ConfigError as :func:`scored_axes`.
    """
    space = problem.space.restricted(scored_axes(problem.space, scores))
    return replace(problem, space=space, qualities=scores.kept)


def scored_axes(space: SearchSpace, scores: Scores) -> dict[str, tuple[KnobValue, ...]]:
    """Return the axes without the values of which no cell has a score.

    Raises ConfigError if some cells of the values that are left have a score and others have none.
    """
    axes = {
        name: values if name in POINT_AXES else _scored(name, values, scores)
        for name, values in space.axes.items()
    }
    for cell, reason in scores.reasons.items():
        if all(dict(cell)[name] in axes[name] for name in axes if name not in POINT_AXES):
            named = ", ".join(f"{n} {dict(cell)[n]}" for n in axes if n not in POINT_AXES)
            raise ConfigError(f"The outputs of {named} have no score; leave it out. {reason}")
    return axes


def retention_u(quality: Quality) -> float | None:
    """Return the standard uncertainty of a retention: that of the longer side of its interval."""
    from scipy.stats import norm  # type: ignore[import-untyped]  # measuring does without

    kept, low, high = quality.retention, quality.retention_low, quality.retention_high
    if kept is None or low is None or high is None:
        return None
    return max(high - kept, kept - low, 0.0) / float(norm.ppf((1 + RETENTION_LEVEL) / 2))


def _scores(metric: str, rows: Mapping[Cell, tuple[str, Row]]) -> Scores:
    kept: dict[Cell, Kept] = {}
    reasons: dict[Cell, str] = {}
    notes: dict[Cell, str] = {}
    data = ""
    for cell, (name, row) in rows.items():
        quality = row.quality
        if quality is None or quality.retention is None:
            reasons[cell] = row.note
        else:
            u = retention_u(quality)
            kept[cell] = Kept(retention=quality.retention, u=u, outputs=name)
            notes |= {cell: row.note} if row.note else {}
            data = quality.data
    return Scores(metric=metric, data=data, kept=kept, reasons=reasons, notes=notes)


def _scored(name: str, values: tuple[KnobValue, ...], scores: Scores) -> tuple[KnobValue, ...]:
    known = {dict(cell)[name] for cell in scores.kept}
    return tuple(value for value in values if value in known)
