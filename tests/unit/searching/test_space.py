"""The grid that a search chooses from."""

import pytest

from joulelab import Configuration, OperatingPoint
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.searching.space import SearchSpace

CLOCKS_MHZ = (1410, 1200, 990)
AXES = {"sm_clock_mhz": CLOCKS_MHZ, "batch": (1, 8), "precision": ("fp16", "bf16")}


def knobs_of(configuration):
    return dict(configuration.knobs)


def test_a_space_is_the_baseline_and_every_combination_once():
    space = SearchSpace("vit", AXES)

    assert len(space) == 1 + 3 * 2 * 2
    assert len(set(space)) == len(space)
    assert space.summary == "3 sm_clock_mhz x 2 batch x 2 precision"


def test_the_baseline_is_the_drivers_point_with_the_workloads_default_where_it_is_searched():
    space = SearchSpace("vit", AXES)

    assert space[0] == space.baseline
    assert space.baseline.point.is_default
    assert knobs_of(space.baseline)["precision"] == "bf16"
    assert knobs_of(space.baseline)["batch"] == 1  # the default, 32, is not searched


def test_the_drivers_point_on_an_axis_is_no_second_baseline():
    space = SearchSpace("vit", {"sm_clock_mhz": (None, 990)})

    assert len(space) == 2


def test_a_configuration_is_named_as_one_that_is_built_from_full_settings():
    space = SearchSpace("gemm", {"sm_clock_mhz": (990,)})

    from joulelab.workloads.launch_loop import GemmSettings

    point = OperatingPoint(sm_clock_mhz=990)
    whole = Configuration.of("gemm", GemmSettings(), point)

    assert whole.config_hash == space[1].config_hash


def test_index_and_item_are_inverse():
    space = SearchSpace("vit", AXES)

    assert [space.index(each) for each in space] == list(range(len(space)))


def test_neighbours_are_one_step_away_on_one_axis():
    space = SearchSpace("vit", AXES)
    start = next(c for c in space if space.values(c) == (1200, 8, "bf16"))

    near = {space.values(each) for each in space.neighbours(start)}

    assert near == {(1410, 8, "bf16"), (990, 8, "bf16"), (1200, 1, "bf16"), (1200, 8, "fp16")}


def test_the_drivers_point_is_next_to_the_highest_clock():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "power_limit_w": (200.0, 400.0)})

    near = {space.values(each) for each in space.neighbours(space.baseline)}

    assert near == {(1410, 400.0)}


def test_a_configuration_of_another_space_has_no_index():
    space = SearchSpace("vit", AXES)
    other = Configuration.of("gemm")

    with pytest.raises(ConfigError, match="does not hold"):
        space.index(other)


@pytest.mark.parametrize(
    ("axes", "knobs", "message"),
    [
        ({}, {}, "at least one axis"),
        ({"batch": ()}, {}, "batch needs at least one value"),
        ({"batch": (1, 1)}, {}, "each value once"),
        ({"batch": (1, 2)}, {"sm_clock_mhz": 990}, "axis of one value"),
        ({"batch": (0,)}, {}, "batch"),
    ],
)
def test_axes_that_make_no_grid_are_refused(axes, knobs, message):
    with pytest.raises(ConfigError, match=message):
        SearchSpace("vit", axes, knobs=knobs)


@pytest.mark.parametrize(("own", "batch"), [(8, 8), (4, 1)])
def test_the_baseline_has_the_workloads_own_value_of_an_axis_if_that_is_on_it(own, batch):
    """``energy_search.py --batches 1 8 vit --batch 8`` was compared with batch 1."""
    space = SearchSpace("vit", {"batch": (1, 8)}, knobs={"batch": own})

    assert dict(space.baseline.knobs)["batch"] == batch
    assert len(space) == 2


def test_an_unknown_axis_is_answered_with_the_closest_one():
    with pytest.raises(UnknownNameError, match="Did you mean 'sm_clock_mhz'"):
        SearchSpace("vit", {"sm_clock": (990,)})
