"""Workloads that say themselves what their outputs are worth, above all users' programs."""

import sys
import traceback
from collections.abc import Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Protocol, get_args

from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, JouleLabError, MeasurementError
from joulelab.quality.base import Metric, Need, Score
from joulelab.quality.subject import Subject
from joulelab.quality.uncertainty import mean_score
from joulelab.registry import Registry, unknown_name
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload, no_quality
from joulelab.workloads.program import Program

OwnScores = tuple[float, ...] | float  # scores of examples, or one of them all


class ScoresItself(Protocol):
    """Scores its own outputs; more is better."""

    def quality(self) -> object:
        """Return a score for each example, or one of them all."""


class LossesItself(ScoresItself, Protocol):
    """Scores its own outputs; less is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScore(Metric):
    """The score that a workload gives its own outputs, the mean over its examples."""

    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})
    asks: ClassVar = ScoresItself

    observation = "scores of its own"

    @override
    def observe(self, subject: Workload[Any], data: object) -> OwnScores:
        return own_scores(subject)

    @override
    def score(self, observed: OwnScores, data: object, reference: OwnScores) -> Score:
        if (ours := _amount(observed)) != (theirs := _amount(reference)):
            raise MeasurementError(
                f"quality must score the same examples whatever the knobs are, but returned {ours} "
                f"here, and {theirs} for the reference."
            )
        if isinstance(observed, float):
            return Score(value=observed, n=1, counted="score")
        return mean_score(observed, "example")

    why_no_samples = "quality returned one number; a score for each example would give one."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLoss(OwnScore):
    """The loss that a workload tells of its own outputs, the mean over its examples."""

    direction: ClassVar[Direction] = "lower"
    asks: ClassVar = LossesItself


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnData:
    """What a workload scores itself on, of which nobody else knows anything."""

    name: str = "its own examples"
    digest: str = ""


class OwnSubject(Subject[Workload[Any]]):
    """A workload with a ``quality`` of its own."""

    metrics: ClassVar = (OwnScore.name,)
    answers: ClassVar = (ScoresItself,)
    is_traceable: ClassVar = False

    @property
    @override
    def identity(self) -> Mapping[str, KnobValue]:
        knobs = asdict(self.workload.settings)
        names = self.workload.quality_knobs
        return knobs if names is None else {name: knobs[name] for name in names}

    @staticmethod
    @override
    def read_data(source: str | None) -> OwnData:
        if source is not None:
            raise ConfigError(
                f"What says its quality itself knows its own examples alone; leave data out, got "
                f"{source!r}."
            )
        return OwnData()

    @override
    def open(self) -> AbstractContextManager[Workload[Any]]:
        return nullcontext(self.workload)


class OwnLossSubject(OwnSubject):
    """A workload with a ``quality`` of its own, less of which is better."""

    metrics: ClassVar = (OwnLoss.name,)
    answers: ClassVar = (LossesItself,)


def own_subject(name: str, kind: type[Workload[Any]]) -> type[OwnSubject]:
    """Return the workload ``kind``, which is called ``name``, as what can be scored.

    Raises ConfigError if it does not say its quality, or not which scores are better,
    UnknownNameError if its outputs are to depend on a knob that it has not.
    """
    if not has_quality(kind):
        raise no_quality(name)
    if kind.quality_direction not in get_args(Direction):
        raise ConfigError(
            f"The quality_direction of {name} must be 'higher' or 'lower', the better one, got "
            f"{kind.quality_direction!r}."
        )
    knobs = [field.name for field in fields(kind.settings_type)]
    for knob in kind.quality_knobs or ():
        if knob not in knobs:
            raise unknown_name(f"knob in the quality_knobs of {name}", knob, knobs)
    return OwnSubject if kind.quality_direction == "higher" else OwnLossSubject


def has_quality(kind: type[Workload[Any]]) -> bool:
    """Whether workloads of this kind say what their outputs are worth."""
    return kind.quality is not Workload.quality


def own_scores(workload: Workload[Any]) -> OwnScores:
    """Ask ``workload`` for the scores of its outputs, and close it.

    Raises MeasurementError if it fails, or returns what is no score; says why.
    """
    name = f"The quality of {type(workload).__name__}"
    try:
        try:
            given = _listed(workload.quality())
        finally:
            workload.close()
    except JouleLabError:
        raise
    except Exception as error:  # code of the user's may raise anything
        raise MeasurementError(
            f"{name} failed{_place(error, workload)}: {type(error).__name__}: {error}"
        ) from error
    return _checked(name, given)


def _listed(given: Any) -> Any:
    """Return arrays, tensors and generators as what they hold."""
    held = given.tolist() if hasattr(given, "tolist") else given
    is_one = hasattr(held, "__float__") or isinstance(held, str | bytes | Mapping | Set)
    return list(held) if hasattr(held, "__iter__") and not is_one else held


def _checked(name: str, given: Any) -> OwnScores:
    try:
        found = tuple(map(float, given)) if isinstance(given, list) else float(given)
    except (OverflowError, TypeError, ValueError) as error:
        raise MeasurementError(
            f"{name} must be one number, or a number for each example, got {given!s:.60}."
        ) from error
    scores = (found,) if isinstance(found, float) else found
    if not scores:
        raise MeasurementError(f"{name} must be a number for each example, got none.")
    for place, score in enumerate(scores):
        if not isfinite(score):
            where = f" for example {place + 1} of {len(scores)}" if isinstance(given, list) else ""
            raise MeasurementError(f"{name} must be finite, got {score}{where}.")
    return found


def _amount(given: OwnScores) -> str:
    return "one number" if isinstance(given, float) else f"{len(given)} scores"


def _place(error: Exception, workload: Workload[Any]) -> str:
    """Say where in the workload's own file it failed, if it did there."""
    file = getattr(sys.modules.get(type(workload).__module__), "__file__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


class SubjectRegistry(Registry[type[Subject[Any]]]):
    """Subjects by the names of workloads; one that says its quality itself needs no entry."""

    @override
    def __getitem__(self, name: str) -> type[Subject[Any]]:
        """Import and return the subject of the workload ``name``.

        Raises UnknownNameError if there is no such workload, or nothing of it to score,
        ConfigError if a program does not say what its outputs are worth.
        """
        if super().__contains__(name):
            return super().__getitem__(name)
        kind = WORKLOADS[name]
        if has_quality(kind) or issubclass(kind, Program) or name in WORKLOADS.programs:
            return own_subject(name, kind)
        return super().__getitem__(name)

    @override
    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        return isinstance(name, str) and name in WORKLOADS and has_quality(WORKLOADS[name])
