from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab import Configuration, OperatingPoint
from joulelab.core.plan import again, plan_sweep, sweep_points
from joulelab.core.trial import Trial, name_within
from joulelab.errors import ConfigError

GRID_MHZ = tuple(range(1980, 344, -15))


def clocks(points):
    return [point.sm_clock_mhz for point in points]


def configurations(num):
    return [
        Configuration.of("gemm", point=OperatingPoint(sm_clock_mhz=clock))
        for clock in GRID_MHZ[:num]
    ]


@pytest.mark.parametrize(
    ("asked", "gpu", "fits"),
    [("NVIDIA L4", "NVIDIA L4", True), ("NVIDIA L4", "NVIDIA A40", False), (None, "any", True)],
)
def test_a_trial_of_one_product_fits_that_alone(asked, gpu, fits):
    [configuration] = configurations(1)
    trial = Trial(study="it", name="first", configuration=configuration, device_name=asked)

    assert trial.fits(gpu) is fits


@pytest.mark.parametrize("product", [None, "NVIDIA L4"])
def test_a_name_beside_those_of_other_products_is_found_again_without_its_own(product):
    [configuration] = configurations(1)
    trial = Trial(study="it", name="first", configuration=configuration, device_name=product)
    beside = trial if product is None else trial.beside_others()

    assert name_within(beside.name, product) == "first"


def test_a_full_sweep_holds_the_default_and_every_clock_once():
    points = sweep_points(GRID_MHZ, mode="dvfs")

    assert clocks(points) == [None, *GRID_MHZ]


@given(every=st.integers(min_value=1, max_value=200))
def test_every_kth_clock_keeps_both_ends_of_the_grid(every):
    chosen = clocks(sweep_points(GRID_MHZ, mode="dvfs", every=every))[1:]

    assert chosen[0] == GRID_MHZ[0]
    assert chosen[-1] == GRID_MHZ[-1]
    assert set(chosen) <= set(GRID_MHZ)


def test_a_baseline_sets_no_clock():
    assert sweep_points(GRID_MHZ, mode="baseline") == (OperatingPoint(),)


@pytest.mark.parametrize(
    ("clock_mhz", "near"), [(1000, "990 and 1005"), (2000, "1980"), (300, "345")]
)
def test_a_clock_off_the_grid_is_refused_with_its_neighbours(clock_mhz, near):
    with pytest.raises(ConfigError, match=f"got {clock_mhz}; the nearest: {near}."):
        sweep_points(GRID_MHZ, mode="custom", clocks_mhz=[clock_mhz])


def test_clocks_with_a_mode_that_takes_none_are_refused():
    with pytest.raises(ConfigError, match="goes with mode 'custom'"):
        sweep_points(GRID_MHZ, mode="dvfs", clocks_mhz=[990])


@given(seed=st.integers(), repeats=st.integers(1, 5), num=st.integers(1, 12))
def test_every_block_holds_every_configuration_once(seed, repeats, num):
    trials = plan_sweep("study", configurations(num), repeats=repeats, seed=seed)

    for repeat in range(repeats):
        block = trials[repeat * num : (repeat + 1) * num]
        assert Counter(t.configuration for t in block) == Counter(configurations(num))
        assert {t.repeat for t in block} == {repeat}


def test_the_order_differs_between_blocks_and_not_between_runs():
    def order(seed):
        trials = plan_sweep("study", configurations(12), repeats=2, seed=seed)
        return [t.configuration.point.sm_clock_mhz for t in trials]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1)[:12] != order(1)[12:]


def test_a_sentinel_comes_first_and_then_between_every_ten_trials():
    sentinel = Configuration.of("gemm")

    trials = plan_sweep("study", configurations(12), repeats=2, sentinel=sentinel)

    assert [i for i, t in enumerate(trials) if t.sentinel] == [0, 11, 22]
    assert {t.configuration for t in trials if t.sentinel} == {sentinel}


def test_trial_names_are_unique():
    trials = plan_sweep(
        "study", configurations(12), repeats=3, sentinel=Configuration.of("gemm"), sentinel_every=4
    )

    assert len({t.name for t in trials}) == len(trials)


@given(seed=st.integers(), num=st.integers(2, 20))
def test_configurations_of_a_kind_are_measured_one_after_the_other_in_every_block(seed, num):
    def kind(configuration):
        return configuration.point.sm_clock_mhz // 15 % 3

    trials = plan_sweep("study", configurations(num), repeats=3, seed=seed, together=kind)

    for repeat in range(3):
        block = [t.configuration for t in trials if t.repeat == repeat]
        assert Counter(block) == Counter(configurations(num))
        changes = sum(kind(a) != kind(b) for a, b in pairwise(block))
        assert changes == len({kind(each) for each in block}) - 1


def test_kinds_follow_each_other_in_an_order_of_its_own_in_every_block():
    def firsts(seed):
        trials = plan_sweep(
            "study", configurations(6), repeats=8, seed=seed, together=lambda each: each
        )
        return [tuple(t.configuration for t in trials[6 * k : 6 * k + 6]) for k in range(8)]

    assert len(set(firsts(0))) > 1


def test_a_further_repeat_of_a_sentinel_has_its_name_but_for_the_number():
    sentinel = plan_sweep("study", configurations(3), repeats=1, sentinel=Configuration.of("gemm"))[
        0
    ]

    further = again(sentinel, 7)

    assert further.name.rsplit("-r", 1) == [sentinel.name.rsplit("-r", 1)[0], "7"]
    assert (further.repeat, further.sentinel) == (7, True)
    assert further.configuration == sentinel.configuration
