"""A linear law whose prior is learned across GPUs, to be adapted to a new one in closed form.

Every GPU is a task. Training finds the coefficients that GPUs have in common and how they scatter
between GPUs and between applications; a few points of a new GPU then move its coefficients by
Bayes' rule, as in ALPaCA (Harrison, Sharma and Pavone 2018), here on features of the physics
instead of a network's: with the handful of GPUs that anybody has measured there is no network to
be learned.
"""

from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.power_models.features import filled, matrix
from joulelab.power_models.members.hierarchical import HierarchicalModel
from joulelab.power_models.members.laws import INPUTS, Law, Terms
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

_SHARE_OF_LIMIT = 0.5
"""Power over the limit of an application at the default clock, before any was seen."""


class LinearLaw(Law):
    """The logarithm of the value is linear in features and coefficients."""

    @override
    def combined(self, logs: Array, terms: Terms) -> tuple[Array, Array]:
        return logs[:, 0], np.ones_like(logs)


class LinearPowerLaw(LinearLaw):
    """Power over the limit: activities at the clock of the profile, and with voltage and clock.

    Its exponent of the clock depends on the activities; the voltage is the catalogue's.
    """

    shared_sd = np.array([0.5, *[1.0] * 5, 0.5, 0.5, *[0.5] * 5])
    gpu_sd = np.array([0.3, *[0.3] * 5, 0.2, 0.2, *[0.15] * 5])
    application_sd = np.array([0.3, 0.2, 0.2])

    @override
    def terms(self, queries: Queries, typical: Array) -> Terms:
        activity, log_ratio, log_voltage = _features(queries, typical)
        one = np.ones_like(log_ratio)
        above = log_voltage - _features(_at_profile(queries), typical)[2]
        columns = np.column_stack(
            [one, activity, above, log_ratio, activity * log_ratio[:, None]],
        )
        offset = np.log(_SHARE_OF_LIMIT) + above + 0.3 * log_ratio
        own = np.column_stack([one, above, log_ratio])
        return _terms(offset, columns, own)


class LinearTimeLaw(LinearLaw):
    """Time over that of the profile: its exponent of the clock is linear in the activities."""

    shared_sd = np.array([0.5, *[1.0] * 5, 0.5, *[0.5] * 5])
    gpu_sd = np.array([0.2, *[0.2] * 5, 0.2, *[0.1] * 5])
    application_sd = np.array([0.2, 0.2])

    @override
    def terms(self, queries: Queries, typical: Array) -> Terms:
        activity, log_ratio, _ = _features(queries, typical)
        inputs = np.column_stack([np.ones_like(log_ratio), activity])
        columns = np.hstack([inputs * log_ratio[:, None], inputs * log_ratio[:, None] ** 2])
        own = np.column_stack([log_ratio, log_ratio**2])
        return _terms(-0.5 * log_ratio, columns, own)


class MetaModel(HierarchicalModel):
    """A linear law with a prior learned across GPUs, for few-shot adaptation to another one."""

    name: ClassVar[str] = "meta"

    @property
    @override
    def law(self) -> Law:
        return LinearPowerLaw() if self.target == "power_w" else LinearTimeLaw()


def _features(queries: Queries, typical: Array) -> tuple[Array, Array, Array]:
    """Return activities over what is typical, and the logs of clock ratio and voltage."""
    inputs = filled(matrix(queries, INPUTS), typical)
    return inputs[:, :5] - typical[:5], np.log(queries.clock_ratio), np.log(inputs[:, 5])


def _at_profile(queries: Queries) -> Queries:
    """Return the same queries at the clock of their profiles."""
    clocks_mhz = queries.of_profiles([profile.clock_mhz for profile in queries.profiles])
    return Queries(profiles=queries.profiles, profile=queries.profile, sm_clock_mhz=clocks_mhz)


def _terms(offset: Array, columns: Array, own: Array) -> Terms:
    """Return the terms of a linear law: one, with the same features for a GPU as for all."""
    features = columns[:, None, :]
    return Terms(
        offset=offset[:, None],
        shared=features,
        gpu=features,
        application=own[:, None, :],
        known=np.empty(0),
    )
