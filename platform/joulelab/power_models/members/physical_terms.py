"""Power and time as sums of physical terms whose logarithms are linear in unknown parameters.

Power over the board's limit is ``y + l y^2`` with

    y = B + v(f)^2 x (K + a_sm S) + v(f)^2 x^e sum_p a_p W_p + x^e D

where ``x`` is the clock over that of the profile, ``p`` are pipes, ``x^e`` is the rate of work, and
``l y^2`` is lost in the supply and in warmer silicon. Time over that of the profile is

    T = c + ((b / x)^4 + (m max(1, x_k / x))^4)^(1/4)

over the same at ``x = 1``: a part that no clock changes, and a roof of compute and memory with a
smooth corner, memory being starved below ``x_k``. Such laws fit public clock sweeps of single
applications to 1 to 2 %.
"""

from collections.abc import Callable

import numpy as np
from typing_extensions import override

from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.features import filled, matrix
from joulelab.power_models.members.laws import INPUTS, Law, Terms
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

_LEAST_ACTIVITY = 0.003
_FULL_BANDWIDTH = 0.85
"""``dram_active`` of a program that does nothing but read and write memory."""
_MEMORY_BOUND = 1.1
"""``dram_active`` at which memory alone would bound; measured ones end at about 0.9."""
_CLOCK_TREE, _FP, _TENSOR = 0.2, 1.0, 3.0
"""Power of the clock tree, of full pipes and of full tensor cores over that of busy SMs."""

_LOSS = 0.15 / 0.85**2
"""Loss over the square of the chip's power, both over the limit: 15 % of the board's at the limit
(regulators lose about a tenth, and leakage doubles in 50 K; estimate)."""

_GPU_TERMS = np.array(
    [[1, 0, 0, 0], *[[0, 1, 0, 0]] * 4, [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]],
    dtype=float,
)
"""Of :class:`PowerLaw`: constant power, all of the core, memory, voltage."""
_APPLICATION_TERMS = np.array(
    [*[[0, 0, 0]] * 2, *[[1, 0, 0]] * 3, [0, 1, 0], [0, 0, 1], [0, 0, 0]],
    dtype=float,
)
"""Of :class:`PowerLaw`: what runs in the core, memory, voltage (hot boards leak more)."""

_TIME_TERMS = np.array([[1.0, 0.0], [1.0, 1.0]])
"""Of :class:`TimeLaw`: all that waits for the device, and memory over compute."""


class PowerLaw(Law):
    """Power over the board's limit.

    The terms are constant, clock tree, SMs, floating-point pipes, tensor cores, memory, the
    exponent of the voltage, and the loss. The catalogue's constant power, power per SM clock,
    energy per byte and voltage curve are where each GPU is expected.
    """

    shared_sd = np.array([0.2, 0.7, 0.4, 0.7, 0.7, 0.5, 0.2, 0.3, 0.7])
    gpu_sd = np.array([0.25, 0.3, 0.3, 0.25])
    application_sd = np.array([0.3, 0.3, 0.3])

    @override
    def terms(self, queries: Queries, typical: Array) -> Terms:
        inputs = filled(matrix(queries, INPUTS), typical)
        fp, dram, tensor, sm = np.log(np.maximum(inputs[:, :4], _LEAST_ACTIVITY)).T
        log_ratio = np.log(queries.clock_ratio)
        work = log_ratio * (1.0 - np.clip(inputs[:, 1] / _FULL_BANDWIDTH, 0.0, 1.0))
        busy = _of_spec(queries, _sm_share)
        offset = np.column_stack(
            [
                _of_spec(queries, _constant_share),
                busy + np.log(_CLOCK_TREE) + log_ratio,
                busy + sm + log_ratio,
                busy + np.log(_FP) + fp + work,
                busy + np.log(_TENSOR) + tensor + work,
                _of_spec(queries, _memory_share) + dram + work,
                np.zeros(len(queries)),
                np.full(len(queries), np.log(_LOSS)),
            ]
        )
        return Terms(
            offset=offset,
            shared=np.concatenate(
                [_for_each(queries, np.eye(8)), _uncounted(queries, _APPLICATION_TERMS[:, :1])],
                axis=2,
            ),
            gpu=_for_each(queries, _GPU_TERMS),
            application=_for_each(queries, _APPLICATION_TERMS),
            known=np.log(inputs[:, 5]),
        )

    @override
    def combined(self, logs: Array, terms: Terms) -> tuple[Array, Array]:
        squared = 2.0 * np.exp(logs[:, 6]) * terms.known
        parts = logs[:, :6].copy()
        parts[:, 1:5] += squared[:, None]
        total = np.logaddexp.reduce(parts, axis=1)
        shares = np.exp(parts - total[:, None])
        slopes = np.column_stack([shares, shares[:, 1:5].sum(axis=1) * squared])
        lost = np.exp(logs[:, 7] + total)
        share_lost = lost / (1.0 + lost)
        board = total + np.log1p(lost)
        return board, np.column_stack([slopes * (1.0 + share_lost)[:, None], share_lost])


class TimeLaw(Law):
    """Time over that at the clock of the profile; the terms are compute and memory over fixed.

    Memory is over compute as ``dram_active`` over what is left of it, and below the catalogue's
    knee it is starved.
    """

    shared_sd = np.array([1.0, 2.0, 2.0, 2.0, 1.0, 2.0, 1.0])
    gpu_sd = np.array([0.3, 0.3])
    application_sd = np.array([0.3, 0.3])

    @override
    def terms(self, queries: Queries, typical: Array) -> Terms:
        inputs = filled(matrix(queries, INPUTS), typical)
        dram = np.clip(inputs[:, 1], _LEAST_ACTIVITY, 1.0)
        fp, _, tensor, sm, engine = (inputs[:, :5] - typical[:5]).T
        one, zero = np.ones_like(fp), np.zeros_like(fp)
        compute = np.column_stack([one, fp + tensor, sm, engine, zero, zero])
        memory = compute + np.column_stack([zero, zero, zero, zero, one, fp])
        knees_mhz = [profile.spec.timing.memory_knee_mhz for profile in queries.profiles]
        starved = np.maximum(queries.of_profiles(knees_mhz) / queries.sm_clock_mhz, 1.0)
        over_compute = np.log(dram / (_MEMORY_BOUND - dram))
        return Terms(
            offset=np.column_stack([one, one + over_compute + np.log(starved)]),
            shared=np.concatenate(
                [np.stack([compute, memory], axis=1), _uncounted(queries, _TIME_TERMS[:, :1])],
                axis=2,
            ),
            gpu=_for_each(queries, _TIME_TERMS),
            application=_for_each(queries, _TIME_TERMS),
            known=np.column_stack([np.log(queries.clock_ratio), np.log(starved)]),
        )

    @override
    def combined(self, logs: Array, terms: Terms) -> tuple[Array, Array]:
        log_ratio, log_starved = terms.known.T
        there, slope_there = _roof(logs[:, 0] - log_ratio, logs[:, 1])
        here, slope_here = _roof(logs[:, 0], logs[:, 1] - log_starved)
        return there - here, slope_there - slope_here


def _roof(compute: Array, memory: Array) -> tuple[Array, Array]:
    """Return the logarithm of ``1 + (b^4 + m^4)^(1/4)`` and its derivatives by both logs."""
    powers = 4.0 * np.column_stack([compute, memory])
    total = np.logaddexp.reduce(powers, axis=1)
    value = np.logaddexp(0.0, total / 4.0)
    shares = np.exp(powers - total[:, None])
    return value, shares * np.exp(total / 4.0 - value)[:, None]


def _uncounted(queries: Queries, derivatives: Array) -> Array:
    """Return ``derivatives`` for applications without counters, which have them in common."""
    unread = np.isnan(matrix(queries, ("sm_active",)))
    return np.where(unread[:, :, None], derivatives, 0.0)


def _for_each(queries: Queries, derivatives: Array) -> Array:
    return np.broadcast_to(derivatives, (len(queries), *derivatives.shape))


def _of_spec(queries: Queries, share: Callable[[GpuSpec], float]) -> Array:
    """Return the logarithm of a share of the board's limit, of each query's GPU."""
    return np.log(queries.of_profiles([share(profile.spec) for profile in queries.profiles]))


def _constant_share(spec: GpuSpec) -> float:
    return spec.power.constant_w / spec.default_power_limit_w


def _sm_share(spec: GpuSpec) -> float:
    """Return the power of busy SMs at the default clock, at the least voltage."""
    busy_w = spec.power.sm_w_per_ghz * spec.default_clock_mhz / 1e3
    return busy_w / spec.default_power_limit_w


def _memory_share(spec: GpuSpec) -> float:
    full_w = spec.power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    return full_w / spec.default_power_limit_w
