"""Validation on a GPU that a model was not trained on, once a few applications ran there."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.operating_model import OperatingModel, Quantity
from joulelab.power_models.queries import queries_of
from joulelab.power_models.runs import Array, Flags, Runs
from joulelab.power_models.scores import ErrorScores, error_scores
from joulelab.power_models.validation import COLD, SCORED, WARM, anchor_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """Scores on the applications of one GPU that were not measured there.

    Attributes:
        gpu: Label of the GPU.
        num_applications: How many were measured there, at all clocks.
        anchors: Clock ratios at which the others were measured; they are not scored.
        adapted: Scores of a model trained on the other GPUs and adapted to this one.
        from_scratch: Scores of a model trained on the measured applications alone.
    """

    gpu: str
    num_applications: int
    anchors: tuple[float, ...]
    adapted: dict[Quantity, ErrorScores]
    from_scratch: dict[Quantity, ErrorScores]


def validate_transfer(
    make: Callable[[], OperatingModel],
    runs: Runs,
    gpu: str,
    *,
    num_applications: int = 5,
    num_draws: int = 4,
    seed: int = 0,
) -> list[Transferred]:
    """Score a model on a GPU of which it knows ``num_applications`` applications.

    Args:
        make: Makes an unfitted model.
        runs: Runs on this GPU and others. An application that also ran on another GPU is trained
            on there.
        gpu: Label of the GPU.
        num_applications: How many applications are measured there, 2 or more.
        num_draws: How often these are drawn; scores are over all draws.
        seed: Of the draws.

    Returns:
        Scores without and with one anchor per application that is asked about.

    Raises:
        ConfigError: If there is no other GPU, or too few applications.
    """
    here = runs.gpu == gpu
    names = np.unique(runs.application[here])
    if len(names) <= num_applications or here.all():
        raise ConfigError(
            f"More than {num_applications} applications on {gpu!r} and runs on another GPU are "
            f"required, got {len(names)} and {int((~here).sum())} runs."
        )
    general = make().fit(runs.select(~here))
    scores = {anchors: _Scores(anchors) for anchors in (COLD, WARM)}
    random = np.random.default_rng(seed)
    for _ in range(num_draws):
        known = here & np.isin(runs.application, random.permutation(names)[:num_applications])
        measured, asked = runs.select(known), runs.select(here & ~known)
        adapted, scratch = general.adapt(measured), make().fit(measured)
        for each in scores.values():
            each.add(adapted, scratch, asked)
    return [each.transferred(gpu, num_applications) for each in scores.values()]


class _Scores:
    """Predictions of every draw for one choice of anchors."""

    def __init__(self, anchors: tuple[float, ...]) -> None:
        self._anchors = anchors
        self._asked: list[Runs] = []
        self._predicted: dict[tuple[bool, Quantity], list[Array]] = {}

    def add(self, adapted: OperatingModel, scratch: OperatingModel, asked: Runs) -> None:
        queries = queries_of(asked)
        anchored = anchor_rows(asked, queries, self._anchors)
        self._asked.append(asked.select(~anchored))
        for is_scratch, model in ((False, adapted), (True, scratch)):
            known = _anchored(model, asked, anchored)
            for name in SCORED:
                values = known.predict(queries.select(~anchored), name)
                self._predicted.setdefault((is_scratch, name), []).append(values)

    def transferred(self, gpu: str, num_applications: int) -> Transferred:
        return Transferred(
            gpu=gpu,
            num_applications=num_applications,
            anchors=self._anchors,
            adapted=self._scored(False),
            from_scratch=self._scored(True),
        )

    def _scored(self, is_scratch: bool) -> dict[Quantity, ErrorScores]:
        application = np.concatenate([asked.application for asked in self._asked])
        return {
            name: error_scores(
                np.concatenate([getattr(asked, name) for asked in self._asked]),
                np.concatenate(self._predicted[is_scratch, name]),
                application,
            )
            for name in SCORED
        }


def _anchored(model: OperatingModel, asked: Runs, anchored: Flags) -> OperatingModel:
    """Return ``model`` with the chosen rows as anchors, if there are any."""
    if not anchored.any():
        return model
    return model.adapt(asked.select(anchored), profiled=asked)
