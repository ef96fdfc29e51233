"""The work that looks cost, found in loops whose loss is known."""

import sys
from pathlib import Path

import numpy as np
import pytest

from joulelab.sampling.window_loop import TimeSpan

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from look_loss import looks, loss_of_work

LOOK_S, PERIOD_S = 0.003, 0.1


def loop_with_looks(cost_s: float, watch_s: float = 40.0):
    """A loop on a noisy host that drifts, and stops for ``cost_s`` at each look."""
    rng = np.random.default_rng(7)
    now_s, next_s = 0.0, PERIOD_S
    units, calls = [], []
    while now_s < watch_s:
        unit_s = 0.0015 * (1 + 0.1 * rng.standard_normal()) * (1 + 0.05 * np.sin(now_s))
        unit_s += rng.exponential(0.003) if rng.random() < 0.01 else 0.0
        if now_s + unit_s > next_s:
            calls.append((next_s, next_s + LOOK_S))
            unit_s += cost_s
            next_s += PERIOD_S
        units.append(TimeSpan(start_s=now_s, stop_s=now_s + unit_s, work=1.0))
        now_s += unit_s
    return calls, units


@pytest.mark.parametrize("cost_s", [0.0, 0.0005, 0.003])
def test_the_loss_is_found_despite_drift_and_noise(cost_s):
    loss, u = loss_of_work(*loop_with_looks(cost_s))
    assert u < 0.001
    assert loss == pytest.approx(cost_s / PERIOD_S, abs=3 * u)


def test_looks_that_touch_are_one():
    assert len(looks([(1.0, 1.003), (1.005, 1.006), (2.0, 2.001)])) == 2


def test_too_few_looks_are_refused():
    calls, units = loop_with_looks(0.0, watch_s=0.5)
    with pytest.raises(ValueError, match="watch longer"):
        loss_of_work(calls, units)
