"""Power and time as sums of physical terms whose logarithms are linear in unknown parameters.

Power over the board's limit is ``B + v(f)^2 x (K + a_sm S) + v(f)^2 x^e sum_p a_p W_p + x^e D``
with ``x`` the clock over that of the profile, pipes ``p``, and ``x^e`` the rate of work. Time is
``c + ((b / x)^4 + m^4)^(1/4)`` over the same at ``x = 1``: a part that no clock changes, and a
roof of compute and memory with a smooth corner. Both forms fit public clock sweeps to 1 to 2 %.
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
_CLOCK_TREE, _FP, _TENSOR = 0.2, 1.0, 3.0
"""Power of the clock tree, of full pipes and of full tensor cores over that of busy SMs."""

_GPU_TERMS = np.array(
    [[1, 0, 0, 0], *[[0, 1, 0, 0]] * 4, [0, 0, 1, 0], [0, 0, 0, 1]],
    dtype=float,
)
"""Of :class:`PowerLaw`: constant power, all of the core, memory, voltage."""
_APPLICATION_TERMS = np.array(
    [*[[0, 0, 0]] * 2, *[[1, 0, 0]] * 3, [0, 1, 0], [0, 0, 1]],
    dtype=float,
)
"""Of :class:`PowerLaw`: what runs in the core, memory, voltage (hot boards leak more)."""


class PowerLaw(Law):
    """Power over the board's limit.

    The terms are constant, clock tree, SMs, floating-point pipes, tensor cores, memory, and the
    exponent of the voltage. The catalogue's constant power, power per SM clock, energy per byte
    and voltage curve are where each GPU is expected.
    """

    shared_sd = np.array([0.2, 0.7, 0.4, 0.7, 0.7, 0.5, 0.2])
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
            ]
        )
        return Terms(
            offset=offset,
            shared=_for_each(queries, np.eye(7)),
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
        return total, np.column_stack([shares, shares[:, 1:5].sum(axis=1) * squared])


class TimeLaw(Law):
    """Time over that at the clock of the profile; the terms are compute and memory over fixed."""

    shared_sd = np.array([1.0, 2.0, 2.0, 2.0, 2.0, 1.0, 2.0])
    gpu_sd = np.array([0.3, 0.3])
    application_sd = np.array([0.3, 0.3])

    @override
    def terms(self, queries: Queries, typical: Array) -> Terms:
        inputs = filled(matrix(queries, INPUTS), typical)
        fp, dram, tensor, sm, engine = (inputs[:, :5] - typical[:5]).T
        one, zero = np.ones_like(fp), np.zeros_like(fp)
        compute = np.column_stack([one, fp + tensor, sm, engine, dram, zero, zero])
        memory = np.column_stack([zero, zero, zero, zero, zero, one, dram])
        return Terms(
            offset=np.column_stack([one, zero]),
            shared=np.stack([compute, memory], axis=1),
            gpu=_for_each(queries, np.eye(2)),
            application=_for_each(queries, np.eye(2)),
            known=np.log(queries.clock_ratio),
        )

    @override
    def combined(self, logs: Array, terms: Terms) -> tuple[Array, Array]:
        there, slope_there = _roof(logs, terms.known)
        here, slope_here = _roof(logs, np.zeros_like(terms.known))
        return there - here, slope_there - slope_here


def _roof(logs: Array, log_ratio: Array) -> tuple[Array, Array]:
    """Return the logarithm of ``1 + ((b / x)^4 + m^4)^(1/4)`` and its derivatives."""
    powers = 4.0 * np.column_stack([logs[:, 0] - log_ratio, logs[:, 1]])
    total = np.logaddexp.reduce(powers, axis=1)
    value = np.logaddexp(0.0, total / 4.0)
    shares = np.exp(powers - total[:, None])
    return value, shares * np.exp(total / 4.0 - value)[:, None]


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
