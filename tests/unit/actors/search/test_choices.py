"""What users of the searches choose: axes and limits."""

import pytest
from actor_fixtures import simulated_gpus

from joulelab.devices.simulated import SimulatedDevice
from joulelab.errors import ConfigError
from joulelab.search.constraints import Constraint
from joulelab.workloads.digits_vit import DigitsVitSettings
from joulelab_actors.placement import Site
from joulelab_actors.search.choices import Axes, Limits

WORKLOAD = DigitsVitSettings()


@pytest.fixture
def sites(tmp_path):
    [address] = simulated_gpus(tmp_path)
    device = SimulatedDevice.open(address)
    yield [
        Site(
            address=address,
            identity=device.identity(),
            capabilities=device.capabilities(),
            node_id="n",
            hostname="h",
        )
    ]
    device.close()


def test_clocks_are_searched_with_what_else_is_given(sites):
    axes = Axes(batches=(1, 8), power_limits_w=(500.0, 700.0), vary=(("weights=trained,none",),))

    space = axes.space(WORKLOAD, sites)

    assert list(space.axes) == ["sm_clock_mhz", "power_limit_w", "batch", "weights"]
    assert space.axes["weights"] == ("trained", None)
    assert dict(space.baseline.knobs)["precision"] == WORKLOAD.precision


def test_without_setters_the_operating_point_is_the_drivers(sites):
    space = Axes(batches=(1, 8), precisions=("fp32", "bf16")).space(
        WORKLOAD, sites, observe_only=True
    )

    assert len(space) == 4
    assert all(each.point.is_default for each in space)


def test_a_power_limit_cannot_be_searched_without_setters(sites):
    with pytest.raises(ConfigError, match="sets no power limit"):
        Axes(power_limits_w=(500.0,)).space(WORKLOAD, sites, observe_only=True)


def test_limits_that_are_given_become_constraints():
    limits = Limits(max_slowdown=0.05, max_temperature_c=70.0, max_memory_gb=24.0)

    assert limits.constraints == (
        Constraint(quantity="slowdown", bound=0.05),
        Constraint(quantity="temperature_c", bound=70.0),
        Constraint(quantity="memory_b", bound=24e9),
    )
    assert Limits().constraints == ()
