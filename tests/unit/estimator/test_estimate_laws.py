"""Laws that every estimate must obey, on random programs and on every device and precision."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs_by_hand import model, pointwise, product

from joulelab.core.point import OperatingPoint
from joulelab.estimator.pricing.predict import estimate, totals
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import PRECISIONS, supports

DEVICES = tuple(PROCESSORS)
MODES = st.sampled_from(["eager", "graph", "compiled", "engine"])
SIZES = st.integers(1, 20_000)
TIGHT = 1 + 1e-9


@st.composite
def programs(draw, precision):
    """Return the same operators twice, the second time with twice the rows."""
    operators = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
            kind = draw(st.sampled_from(["gemm", "conv", "attention"]))
            operators.append((product, (m, n, k), {"precision": precision, "kind": kind}))
        else:
            operators.append((pointwise, (draw(st.integers(1, 10**9)),), {}))
    return [
        [make(size[0] * factor, *size[1:], **named) for make, size, named in operators]
        for factor in (1, 2)
    ]


@st.composite
def cells(draw):
    """Return a device, a precision that it has, and a program once and at twice the batch."""
    device = PROCESSORS[draw(st.sampled_from(DEVICES))]
    precision = draw(st.sampled_from([name for name in PRECISIONS if supports(name, device)]))
    parameter_b = draw(st.sampled_from([1e5, 1e12]))
    once, twice = (
        model(*operators, precision=precision, parameter_b=parameter_b)
        for operators in draw(programs(precision))
    )
    return device, once, twice


def points_of(device, shares):
    clock, limit = device.clocks_mhz, device.power_limits_w
    return [
        OperatingPoint(
            sm_clock_mhz=int(np.ceil(clock[0] + share * (clock[2] - clock[0])) - (share == 1)),
            power_limit_w=limit[0] + other * (limit[1] - limit[0]),
        )
        for share, other in shares
    ]


@given(cells(), MODES, st.tuples(st.floats(0, 1), st.floats(0, 1)), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_estimate_keeps_to_the_cap_and_above_the_roofline(cell, mode, shares, default):
    device, once, _ = cell
    point = OperatingPoint() if default else points_of(device, [shares])[0]

    made = estimate(once, device, mode=mode, point=point)

    phase = made.phases[0]
    assert phase.power_w <= made.cap_w * TIGHT
    assert phase.peak_power_w <= made.cap_w * TIGHT
    assert phase.latency_s * TIGHT >= phase.roofline_s > 0
    assert 0 <= phase.throttled_fraction <= 1
    assert 0 < made.data_energy_j[0] <= made.data_energy_j[1] == made.energy_j
    for group in phase.groups:
        assert group.device_s * TIGHT >= group.roofline_s
        assert group.elapsed_s * TIGHT >= group.device_s
        assert min(group.energy.compute_j, group.energy.memory_j) >= 0
        assert group.energy.static_j > 0
        assert device.clocks_mhz[0] <= group.clock_mhz <= device.clocks_mhz[2]


@given(cells(), MODES)
@settings(max_examples=50, deadline=None)
def test_groups_and_events_partition_time_and_energy(cell, mode):
    device, once, _ = cell

    made = estimate(once, device, mode=mode, events=True)

    phase = made.phases[0]
    assert fsum(group.elapsed_s for group in phase.groups) == pytest.approx(
        phase.latency_s, rel=1e-9
    )
    for component in ("compute", "memory", "static"):
        own_j = getattr(phase.energy, f"{component}_j")
        groups_j = fsum(getattr(group.energy, f"{component}_j") for group in phase.groups)
        events_j = fsum(e.energy_j for e in phase.events if e.path.startswith(component))
        assert groups_j == pytest.approx(own_j, rel=1e-9)
        assert events_j == pytest.approx(own_j, rel=1e-9)


@given(cells(), MODES, st.lists(st.floats(0, 1), min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_lower_cap_is_never_faster(cell, mode, shares):
    device, once, _ = cell
    points = points_of(device, [(1.0, share) for share in sorted(shares)])

    latency_s = totals(once, [device], mode=mode, points=points).total_latency_s[0]

    assert (np.diff(latency_s) <= 1e-9 * latency_s[1:]).all()


@given(cells(), MODES, st.lists(st.floats(0, 1), min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_higher_clock_is_never_slower(cell, mode, shares):
    device, once, _ = cell
    points = points_of(device, [(share, 1.0) for share in sorted(shares)])

    latency_s = totals(once, [device], mode=mode, points=points).total_latency_s[0]

    assert (np.diff(latency_s) <= 1e-9 * latency_s[1:]).all()


@given(cells(), MODES)
@settings(max_examples=150, deadline=None)
def test_twice_the_batch_never_takes_less_energy_or_time(cell, mode):
    """Two hundredths are left to tiles, which odd shapes fit better at twice the rows."""
    device, once, twice = cell

    one, two = (totals(net, [device], mode=mode) for net in (once, twice))

    assert two.total_energy_j >= 0.98 * one.total_energy_j
    assert two.total_latency_s >= 0.98 * one.total_latency_s
