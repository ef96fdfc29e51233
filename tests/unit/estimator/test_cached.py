"""Which bytes the main memory brings and which the last cache, of 10 MB, against closed forms."""

import pytest
from programs_by_hand import model, plain_processor, pointwise, product, with_timing

from joulelab.estimator.pricing.predict import estimate
from joulelab.hardware.processors import PROCESSORS

CUBE = 8192
FLOP = 2.0 * CUBE**3


def groups_of(*operators, processor=None, **changes):
    made = estimate(model(*operators, **changes), processor or plain_processor())
    return made.phases[0].groups


def last_group_of(*operators, **changes):
    return groups_of(*operators, **changes)[-1]


@pytest.mark.parametrize(
    ("activation_b", "from_memory_b"), [(2e6, 0.4e6), (4e6, 1.6e6), (20e6, 20e6)]
)
def test_of_activations_a_share_is_missed_that_grows_with_them(activation_b, from_memory_b):
    made = pointwise(100.0, activation_b / 2), pointwise(activation_b / 2)

    group = next(one for one in groups_of(*made) if one.moved_b["L2"] == activation_b)

    assert group.moved_b["DRAM"] == pytest.approx(from_memory_b)
    found_s = (activation_b - from_memory_b) / 10e12
    assert group.device_s == pytest.approx(found_s + from_memory_b / 1e12)


def test_time_does_not_jump_where_a_batch_leaves_the_cache():
    times = [
        sum(one.device_s for one in groups_of(pointwise(100.0, size_b), pointwise(size_b)))
        for size_b in (4.99e6, 5.01e6)
    ]

    assert times[1] / times[0] < 1.01


@pytest.mark.parametrize(("parameter_b", "from_memory"), [(4e6, False), (6e6, True)])
def test_weights_stay_in_the_last_cache_only_if_all_parameters_fit(parameter_b, from_memory):
    small = product(1, 1000, 1000)

    group = last_group_of(small, parameter_b=parameter_b)

    activation_b = small.read_b + small.written_b
    expected_b = small.weight_b if from_memory else 0
    assert group.moved_b["DRAM"] == pytest.approx(expected_b, abs=activation_b)


@pytest.mark.parametrize(("parameter_b", "passed_in_b"), [(3e6, 0.0), (5e6, 1e6)])
def test_what_is_passed_in_stays_only_if_it_fits_with_the_parameters(parameter_b, passed_in_b):
    group = last_group_of(pointwise(1e6), parameter_b=parameter_b)

    written_b = 0.2 * 1e6  # 2 of 10 MB are moved
    assert group.moved_b["DRAM"] == pytest.approx(
        passed_in_b + written_b if passed_in_b else 2 * written_b
    )


def test_operands_that_exceed_the_cache_are_read_again():
    processor = with_timing(plain_processor(), cache_flop_per_b=100.0)

    group = last_group_of(product(CUBE, CUBE, CUBE), processor=processor)

    assert group.moved_b["DRAM"] == pytest.approx(FLOP / 100)


def test_a_product_whose_weights_stay_in_the_cache_reads_the_rest_once():
    processor = with_timing(plain_processor(), cache_flop_per_b=1.0)
    thin = product(1_000_000, 64, 64)

    group = last_group_of(thin, processor=processor)

    assert group.moved_b["DRAM"] == thin.read_b + thin.weight_b + thin.written_b


def test_a_compiler_that_plans_the_cache_runs_a_batch_in_parts():
    first, second = product(1_000_000, 64, 64), product(1_000_000, 64, 32)

    group = last_group_of(first, second, processor=plain_processor(family="tpu"))

    parts = -(-(second.read_b + second.written_b) // 10e6)
    assert group.moved_b["DRAM"] == pytest.approx(parts * second.weight_b)


def test_parts_of_a_batch_read_weights_however_large_the_whole_product():
    processor = with_timing(plain_processor(family="tpu"), cache_flop_per_b=1.0)
    large = product(2000, 2000, 2000)  # no matrix stays beside the others

    group = last_group_of(pointwise(100.0, large.read_b), large, processor=processor)

    assert group.moved_b["DRAM"] == pytest.approx(2 * large.weight_b)


@pytest.mark.parametrize("sibling", ["h100_sxm", "h100_pcie", "h100_nvl"])
def test_boards_of_one_core_reach_the_same_share_of_int8(sibling):
    """The H100s had what was estimated for the H200, twice what was measured on it."""
    reached = [
        PROCESSORS[key].timing.pipe_efficiency["tensor_int8"] for key in ("h200_sxm", sibling)
    ]

    assert reached[0] == reached[1]
