"""Scores of a workload's configurations, and what each keeps of the first one's."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

from joulelab.core.configuration import Configuration, KnobValue, knob_words
from joulelab.core.quality import Quality, retention
from joulelab.errors import ConfigError, JouleLabError, MeasurementError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.base import Data, Metric, Score
from joulelab.quality.subject import NoCache, ScoreCache, Subject
from joulelab.quality.uncertainty import retention_interval
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import digest

logger = logging.getLogger(__name__)

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one metric says of one configuration, or a note why not.

    The note also tells why there is no retention or no interval of it; empty if all are there.
    """

    configuration: Configuration
    metric: str
    quality: Quality | None
    note: str = ""


def evaluate(
    workload: str,
    settings: Sequence[Any],
    metrics: Sequence[Metric],
    data: Data,
    *,
    cache: ScoreCache | None = None,
    progress: Progress = logger.debug,
) -> tuple[Row, ...]:
    """Score every configuration of a workload by every metric: rows in the order given.

    One network is loaded at a time, and none whose scores are all in the cache. A configuration
    that cannot run, or whose outputs cannot be scored, gets rows that say why. The first of
    ``settings`` is the reference; ``progress`` is called with what is being done next; scores are
    kept in the user's cache folder unless ``cache`` says otherwise, those of a workload that scores
    itself nowhere. Raises ConfigError if a metric asks what the workload cannot answer, or needs
    what ``data`` has not.
    """
    kind = SUBJECTS[workload]
    for metric in metrics:
        _require_answer(workload, kind, metric)
        metric.check(data)
    return _Evaluation(
        workload=workload,
        subjects=[kind(WORKLOADS[workload](each)) for each in settings],
        metrics=metrics,
        data=data,
        cache=cache or (ScoreCache() if kind.is_traceable else NoCache()),
        progress=progress,
    ).rows()


def varying(settings: Sequence[Any]) -> tuple[dict[str, KnobValue], ...]:
    """Return for each configuration the knobs in which they differ."""
    knobs = [asdict(each) for each in settings]
    names = [name for name in knobs[0] if len({each[name] for each in knobs}) > 1]
    return tuple({name: each[name] for name in names} for each in knobs)


@dataclass(frozen=True, kw_only=True)
class _Evaluation:
    workload: str
    subjects: Sequence[Subject[Any]]
    metrics: Sequence[Metric]
    data: Data
    cache: ScoreCache
    progress: Progress

    @cached_property
    def _labels(self) -> list[str]:
        return [
            knob_words(knobs.items())
            for knobs in varying([subject.workload.settings for subject in self.subjects])
        ]

    @cached_property
    def _keys(self) -> list[list[str]]:
        """Where the cache has the scores of each configuration by each metric."""
        identities = [subject.identity for subject in self.subjects]
        key = partial(self.cache.key, self.workload, data=self.data, reference=identities[0])
        return [[key(outputs=each, metric=m) for m in self.metrics] for each in identities]

    def rows(self) -> tuple[Row, ...]:
        known = [[self.cache.find(key) for key in keys] for keys in self._keys]
        missing = [
            [m for m, score in zip(self.metrics, scores, strict=True) if score is None]
            for scores in known
        ]
        compared = [m for m in self.metrics if _compares(m) and any(m in m_s for m_s in missing)]
        reference: Mapping[str, Any] = {}
        rows: list[Row] = []
        first: Sequence[Score | str] = ()
        for index, scores in enumerate(known):
            wanted = missing[index] if index else list(dict.fromkeys((*missing[0], *compared)))
            observed = self._observe(index, [m for m in wanted if not _failed(m, reference)])
            reference = reference if index else observed
            found = [
                score or self._score(index, number, observed, reference)
                for number, score in enumerate(scores)
            ]
            first = first or found
            rows += [self._row(index, n, found[n], first[n]) for n in range(len(found))]
        return tuple(rows)

    def _observe(self, index: int, metrics: Sequence[Metric]) -> dict[str, Any]:
        """Return the observations that ``metrics`` need; what could not be observed, as a text."""
        if not metrics:
            return {}
        subject = self.subjects[index]
        asked = {metric.observation: metric for metric in metrics}
        observed: dict[str, Any] = {}
        try:
            self.progress(f"Loading {self.workload} {self._labels[index]}".rstrip())
            with subject.open() as network:
                for name, metric in asked.items():
                    self.progress(": ".join(filter(None, (self._labels[index], name))))
                    observed[name] = metric.observe(network, self.data)
        except JouleLabError as error:
            observed |= {name: _Failure(str(error)) for name in asked.keys() - observed.keys()}
        return observed

    def _score(
        self,
        index: int,
        number: int,
        observed: Mapping[str, Any],
        reference: Mapping[str, Any],
    ) -> Score | str:
        metric = self.metrics[number]
        if index and (failure := _failed(metric, reference)):
            return f"The reference has no outputs. {failure.reason}"
        ours = observed[metric.observation]
        if isinstance(ours, _Failure):
            return ours.reason
        theirs = reference[metric.observation] if _compares(metric) else None
        try:
            score = metric.score(ours, self.data, theirs)
        except MeasurementError as error:
            return str(error)
        self.cache.keep(self._keys[index][number], score)
        return score

    def _row(self, index: int, number: int, score: Score | str, reference: Score | str) -> Row:
        metric, settings = self.metrics[number], self.subjects[index].workload.settings
        configuration = Configuration.of(self.workload, settings)
        if isinstance(score, str):
            return Row(configuration=configuration, metric=metric.name, quality=None, note=score)
        kept, note = _kept(score, reference, metric)
        ends: tuple[float, float] | tuple[None, None] = (None, None)
        if kept is not None and isinstance(reference, Score):
            ends, note = self._interval(index, number, score, reference)
        quality = Quality(
            metric=metric.name,
            direction=metric.direction,
            score=score.value,
            score_u=score.u,
            n=score.n,
            counted=score.counted,
            retention=kept,
            retention_low=ends[0],
            retention_high=ends[1],
            reference=self._labels[0] or None,
            data=self.data.name,
            source_hash=self._keys[index][number],
        )
        return Row(configuration=configuration, metric=metric.name, quality=quality, note=note)

    def _interval(
        self, index: int, number: int, score: Score, reference: Score
    ) -> tuple[tuple[float, float] | tuple[None, None], str]:
        """Return the ends of the interval, or why it has none; the reference is what it is."""
        key, of_reference = self._keys[index][number], self._keys[0][number]
        if key == of_reference:
            return (None, None), ""
        metric = self.metrics[number]
        try:
            return self.cache.interval(
                digest(["interval", key, of_reference]),
                lambda: retention_interval(metric, score, reference),
            ), ""
        except MeasurementError as error:
            return (None, None), str(error)


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str


def _kept(score: Score, reference: Score | str, metric: Metric) -> tuple[float | None, str]:
    if isinstance(reference, str):
        return None, f"The reference has no score. {reference}"
    try:
        return retention(score.value, reference.value, metric.direction), ""
    except MeasurementError as error:
        return None, str(error)


def _compares(metric: Metric) -> bool:
    return "reference_outputs" in metric.needs


def _failed(metric: Metric, reference: Mapping[str, Any]) -> _Failure | None:
    """Return why ``metric`` has no outputs of the reference to compare with, if it has none."""
    found = reference.get(metric.observation) if _compares(metric) else None
    return found if isinstance(found, _Failure) else None


def _require_answer(workload: str, kind: type[Subject[Any]], metric: Metric) -> None:
    if metric.asks in kind.answers:
        return
    fitting = [name for name in METRICS if METRICS[name].asks in kind.answers]
    raise ConfigError(
        f"{metric.name} cannot be scored for {workload}; choose from {', '.join(fitting)}."
    )
