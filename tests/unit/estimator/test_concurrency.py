"""How much of a program could run side by side, against graphs counted by hand."""

import pytest
from hand_made_programs import ProgramBuilder, programs
from hypothesis import given

from joulelab.errors import ConfigError
from joulelab.estimator.pricing.breakdown import concurrency
from joulelab.tracing.fusion import fused, unfused
from joulelab.tracing.program import Program


def inception_block():
    """Branches of one, two and three products of an input, and their sum."""
    return (
        ProgramBuilder(x=1.0)
        .call("mm", "x", "stem")
        .call("mm", "stem", "a1")
        .call("mm", "stem", "b1")
        .call("mm", "b1", "b2")
        .call("mm", "stem", "c1")
        .call("mm", "c1", "c2")
        .call("mm", "c2", "c3")
        .call("_softmax", "a1 b2 c3", "y")
        .program()
    )


def test_depth_is_that_of_the_longest_branch_and_width_that_of_the_most_branches():
    program = inception_block()

    found = concurrency(program, unfused(program), [1.0] * 8)

    assert (found.num_groups, found.critical_path, found.max_width) == (8, 5, 3)
    assert found.mean_width == 8 / 5


def test_the_slowest_chain_need_not_be_the_longest():
    program = inception_block()

    found = concurrency(program, unfused(program), [1.0, 50.0, 2.0, 2.0, 3.0, 3.0, 3.0, 1.0])

    assert found.critical_s == 1.0 + 50.0 + 1.0
    assert found.critical_path == 5


def test_a_residual_network_has_one_thing_to_do_at_a_time():
    builder = ProgramBuilder(x0=1.0)
    for block in range(8):
        builder.call("convolution", f"x{block}", f"a{block}").call("relu", f"a{block}", f"b{block}")
        builder.call("convolution", f"b{block}", f"c{block}")
        builder.call("add", f"c{block} x{block}", f"x{block + 1}")
    program = builder.program()
    groups = fused(program)

    found = concurrency(program, groups, [2.0] * len(groups))

    assert (found.num_groups, found.critical_path, found.max_width) == (16, 16, 1)
    assert (found.mean_width, found.critical_s) == (1.0, 32.0)


def test_independent_operators_are_all_at_one_depth():
    builder = ProgramBuilder(x=1.0)
    for number in range(5):
        builder.call("mm", "x", f"y{number}")
    program = builder.program()

    found = concurrency(program, unfused(program), [1.0, 2.0, 3.0, 4.0, 5.0])

    assert (found.critical_path, found.max_width, found.critical_s) == (1, 5, 5.0)


def test_a_program_without_operators_has_no_width():
    found = concurrency(Program(operators=(), parameter_b=0.0), (), ())

    assert (found.num_groups, found.critical_path, found.mean_width) == (0, 0, 0.0)


def test_times_that_do_not_match_the_groups_are_refused():
    program = inception_block()

    with pytest.raises(ConfigError, match="one per group"):
        concurrency(program, unfused(program), [1.0])


def test_groups_in_an_order_in_which_they_cannot_run_are_refused():
    program = ProgramBuilder(x=1.0).call("mm", "x", "y").call("mm", "y", "z").program()

    with pytest.raises(ConfigError, match="order in which they can run"):
        concurrency(program, ((1,), (0,)), [1.0, 1.0])


@given(programs())
def test_chains_are_no_slower_than_running_everything_one_after_the_other(program):
    groups = fused(program)
    seconds = [float(1 + position % 3) for position in range(len(groups))]

    found = concurrency(program, groups, seconds)

    assert max(seconds, default=0.0) <= found.critical_s <= sum(seconds)
    assert found.critical_path <= found.critical_s <= 3 * found.critical_path
    assert found.critical_path * found.max_width >= found.num_groups
