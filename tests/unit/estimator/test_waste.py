"""What an estimate says is wasted is a part of what is spent, and shares are shares."""

import numpy as np
import pytest

from joulelab import estimator
from joulelab.estimator.pricing.power import static_w
from joulelab.hardware.processors import PROCESSORS

CASES = [("h200", "eager", 1), ("h200", "compiled", 64), ("xeon_8490h", "eager", 8)]


@pytest.mark.parametrize(("device", "mode", "batch"), CASES)
def test_what_is_wasted_is_a_part_of_the_static_energy(device, mode, batch):
    (phase,) = estimator.estimate("resnet18", device=device, mode=mode, batch=batch).phases

    assert phase.waiting_j >= 0
    assert phase.idle_j >= 0
    assert phase.waiting_j + phase.idle_j <= phase.energy.static_j
    assert 0 < phase.unit_share <= phase.device_share <= 1
    assert 0 <= phase.memory_share < 1  # where weights stay in the cache, none


def test_a_device_that_waits_for_launches_wastes_what_it_draws_then():
    found = estimator.estimate("resnet18", device="h200", batch=1)
    (phase,) = found.phases
    waited_s = phase.latency_s * found.launch_share

    assert phase.device_share == pytest.approx(1 - found.launch_share, abs=0.01)
    assert 75 < phase.waiting_j / waited_s < 200  # an H200 that is clocked and idle


def test_a_graph_wastes_less_than_launches_from_python():
    eager, graph = (
        estimator.estimate("resnet18", device="h200", mode=mode).phases[0]
        for mode in ("eager", "graph")
    )

    assert graph.waiting_j < 0.2 * eager.waiting_j
    assert graph.unit_share > eager.unit_share


def test_all_devices_waste_together_what_each_does():
    model = "hf:llama?num_hidden_layers=2"
    alone, shared = (
        estimator.estimate(model, device="h100", num_devices=num, host="slow").phases[-1]
        for num in (1, 2)
    )

    h100 = PROCESSORS["h100"]
    rest_w = float(static_w(h100, np.array(h100.default_clock_mhz)))
    links_awake = 1 + h100.link_awake_w / rest_w
    assert shared.waiting_j == pytest.approx(2 * links_awake * alone.waiting_j, rel=0.15)
    assert shared.unit_share < alone.unit_share
