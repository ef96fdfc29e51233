"""Members that know by their own means where they are unsure."""

from abc import abstractmethod

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import ANCHOR_SETS, Calibration
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.splits import group_folds

_CLOCK_RATIOS = (0.5, 0.7, 0.9, 1.0)
"""Where the doubt about an application is looked up, over the clock of its profile."""
_LEAST_SPREAD = 0.05
"""Added to every spread, in logs: members agree on much that they have wrong alike."""


class SpreadModel(PowerModel):
    """A model whose intervals are wide where its own spread is.

    A spread says for which applications errors are larger, not how large they are: that is
    learned from applications that were held out, whose errors are divided by their spread
    (conformal prediction with normalised scores). Among the clocks of one application the width
    varies as for every model.
    """

    @abstractmethod
    def spread(self, queries: Queries) -> Array:
        """Return the model's own standard deviation of the logarithm of each answer."""

    def doubt(self, queries: Queries) -> Array:
        """Return the spread of each query's application over the least one, 1 or more."""
        ratios = np.tile(_CLOCK_RATIOS, len(queries.profiles))
        profile = np.repeat(np.arange(len(queries.profiles)), len(_CLOCK_RATIOS))
        clocks_mhz = np.array([p.clock_mhz for p in queries.profiles])
        asked = Queries(
            profiles=queries.profiles,
            profile=profile.astype(np.intp),
            sm_clock_mhz=clocks_mhz[profile] * ratios,
        )
        spreads = self.spread(asked).reshape(len(queries.profiles), -1)
        doubts = 1.0 + np.sqrt(np.mean(spreads**2, axis=1)) / _LEAST_SPREAD
        return np.asarray(doubts[queries.profile])

    def errors_after(self, ratios: tuple[float, ...], queries: Queries, values: Array) -> Array:
        """Return the logs of measured over predicted once each application is anchored.

        Args:
            ratios: At which clocks, over that of its profile.
            queries: What is asked.
            values: What was measured, in the unit of ``learn``.

        Returns:
            Shape ``(n,)``; not a number at the anchors, and anywhere if anchors merely scale.
        """
        return np.full(len(queries), np.nan)

    @override
    def _calibrated(self, queries: Queries, values: Array, groups: Names) -> Calibration | None:
        if self.calibration_folds < 2 or len(np.unique(groups)) < 3:
            return None
        scores = np.empty(len(queries))
        anchored = np.full((len(ANCHOR_SETS), len(queries)), np.nan)
        for held_out in group_folds(groups, self.calibration_folds, self.seed):
            kept = ~held_out
            fold = self.unfitted(calibration_folds=0).learn(
                queries.select(kept), values[kept], groups[kept]
            )
            asked = queries.select(held_out)
            doubt = fold.doubt(asked)
            scores[held_out] = np.log(values[held_out] / fold.answer(asked)) / doubt
            for number, ratios in enumerate(ANCHOR_SETS):
                left = fold.errors_after(ratios, asked, values[held_out])
                anchored[number, held_out] = left / doubt
        return Calibration(
            group=groups,
            pair=queries.profile,
            log_ratio=np.log(queries.clock_ratio),
            log_error=scores,
            anchored_error=None if np.isnan(anchored).all() else anchored,
        )

    @override
    def _half_width(self, queries: Queries, level: float) -> Array:
        return super()._half_width(queries, level) * self.doubt(queries)
