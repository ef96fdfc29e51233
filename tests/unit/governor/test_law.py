"""Expectations of clocks that were not tried, from those that were."""

import numpy as np
import pytest

from joulelab.devices.simulated.physics import PhaseModel
from joulelab.governor.law import BoardFigures, Counters, conditioned, draw_prior
from joulelab.governor.loads import PHASES, phase_cost
from joulelab.hardware import GPUS


def truth(gpu, phase):
    """Clocks, relative times and powers of a phase on a board that is exactly its kind.

    The first is where its power limit holds it.
    """
    spec = GPUS[gpu]
    model = PhaseModel(spec, phase_cost(phase, spec))
    at = {clock: model.at(clock, spec.mem_clocks_mhz[0]) for clock in spec.sm_clocks_mhz}
    top_mhz = next(c for c in at if at[c].power_w <= spec.default_power_limit_w)
    clocks = [c for c in at if 0.35 * top_mhz < c <= top_mhz][::6]
    points = [at[clock] for clock in clocks]
    times = np.array([point.duration_s for point in points])
    powers = np.array([point.power_w for point in points])
    counters = Counters(
        sm_clock_mhz=clocks[0],
        power_w=powers[0],
        engine_active=points[0].activity.gr_engine_active,
        dram_active=points[0].activity.dram_active,
    )
    return np.array(clocks, dtype=float), np.log([*(times / times[0]), *powers]), counters


@pytest.mark.parametrize("knows", [True, False], ids=["catalogued", "unknown"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("gpu", ["h200_sxm", "a100_sxm", "v100_sxm2"])
def test_what_is_expected_holds_the_truth(gpu, phase, knows):
    """Within three standard deviations, before and after two clocks were tried."""
    clocks_mhz, logs, counters = truth(gpu, phase)
    spec = GPUS[gpu] if knows else None
    prior = draw_prior(BoardFigures.of(spec, clocks_mhz[0]), counters, clocks_mhz)
    num = len(clocks_mhz)

    for at in ([num], [num, 1, num + 1], [num, 1, num + 1, 3, num + 3]):
        places = np.array(at)
        mean, sd = conditioned(prior, places, logs[places], np.full(len(at), 0.003))
        assert np.abs((logs - mean) / np.maximum(sd, 2e-3)).max() < 3.0


def test_a_clock_that_was_measured_is_expected_to_be_as_measured():
    clocks_mhz, _, counters = truth("h200_sxm", "decode")
    prior = draw_prior(BoardFigures.of(None, 1980), counters, clocks_mhz)

    mean, sd = conditioned(prior, np.array([3]), np.array([0.02]), np.array([1e-4]))

    assert mean[3] == pytest.approx(0.02, abs=1e-4)
    assert sd[3] < 2e-3
    assert sd[2] < np.sqrt(prior.covariance[2, 2]) / 2
