"""Which operators become one kernel, against networks small enough to fuse by hand."""

import time

import pytest
from hand_made_programs import ProgramBuilder, names, programs
from hypothesis import given

from joulelab.errors import ConfigError
from joulelab.tracing.fusion import fused, traffic, unfused


def residual_block():
    """Two convolutions with batch norm, the sum with the block's input, and a relu."""
    return (
        ProgramBuilder(image=100.0)
        .call("convolution", "image", "a", weight_b=9.0)
        .call("native_batch_norm", "a", "b", weight_b=2.0)
        .call("relu_", "b", "c")
        .call("convolution", "c", "d", weight_b=9.0)
        .call("native_batch_norm", "d", "e", weight_b=2.0)
        .call("add_", "e image", "f")
        .call("relu_", "f", "g")
        .program()
    )


def test_convolutions_take_in_their_norms_the_residual_sum_and_the_activations():
    program = residual_block()

    groups = fused(program)

    assert groups == ((0, 1, 2), (3, 4, 5, 6))


def test_only_what_leaves_a_group_is_moved():
    program = residual_block()

    first, second = traffic(program, fused(program))

    assert first == (100.0, 11.0, 100.0, 100.0)  # reads the image, writes c
    assert second == (200.0, 11.0, 100.0, 100.0)  # reads c and the image, writes g


def test_unfused_groups_move_what_their_operators_move():
    program = residual_block()

    moved = traffic(program, unfused(program))

    assert [one[:3] for one in moved] == [
        (one.read_b, one.weight_b, one.written_b) for one in program.operators
    ]


def test_a_linear_layer_takes_in_its_activation():
    program = ProgramBuilder(x=8.0).call("mm", "x", "y").call("gelu", "y", "z").program()

    assert names(program, fused(program)) == [["mm", "gelu"]]


def test_a_value_with_another_reader_is_not_kept_from_it():
    program = (
        ProgramBuilder(x=8.0)
        .call("mm", "x", "y")
        .call("relu", "y", "z")
        .call("mm", "y", "w")
        .program()
    )

    assert fused(program) == ((0,), (1,), (2,))


@pytest.mark.parametrize("name", ["_softmax", "native_layer_norm", "mean", "mm", "embedding"])
def test_what_needs_whole_rows_does_not_join_the_product_that_makes_them(name):
    program = ProgramBuilder(x=8.0).call("mm", "x", "y").call(name, "y", "z").program()

    assert fused(program) == ((0,), (1,))


def test_a_normalisation_written_out_in_steps_becomes_one_kernel():
    program = (
        ProgramBuilder(x=64.0)
        .call("mm", "x", "a")
        .call("clone", "a", "wide", size_b=128.0)
        .call("mm", "a", "elsewhere")
        .call("pow", "wide", "square")
        .call("mean", "square", "scale", size_b=1.0)
        .call("add", "scale", "scale_1")
        .call("mul", "wide scale_1", "normal", size_b=128.0)
        .call("clone", "normal", "narrow", size_b=64.0)
        .program()
    )

    groups = fused(program)

    assert groups == ((0,), (2,), (1, 3, 4, 5, 6, 7))
    assert traffic(program, groups)[2][:3] == (64.0, 0.0, 64.0)


def test_one_of_two_products_takes_in_what_joins_them():
    program = (
        ProgramBuilder(x=8.0)
        .call("mm", "x", "gate")
        .call("gelu", "gate", "open")
        .call("mm", "x", "up")
        .call("mul", "open up", "z")
        .program()
    )

    assert names(program, fused(program)) == [["mm", "gelu"], ["mm", "mul"]]


def test_a_gate_for_a_whole_feature_map_is_not_scaled_by_the_product_that_makes_the_gate():
    program = (
        ProgramBuilder(features=3136.0)
        .call("mean", "features", "pooled", size_b=1.0)
        .call("mm", "pooled", "gate")
        .call("mul", "features gate", "scaled")
        .program()
    )

    assert fused(program) == ((0,), (1,), (2,))


def test_a_group_whose_second_output_was_read_elsewhere_is_closed():
    program = (
        ProgramBuilder(x=8.0)
        .call("max_pool2d_with_indices", "x", "y indices")
        .call("mm", "indices", "z")
        .call("add", "y z", "sum")
        .program()
    )

    groups = fused(program)

    assert names(program, groups) == [["max_pool2d_with_indices"], ["mm", "add"]]


def test_batch_norm_of_a_training_step_stays_alone():
    program = (
        ProgramBuilder(x=8.0)
        .call("convolution", "x", "a")
        .call("native_batch_norm", "a", "b")
        .call("relu", "b", "c")
        .call("mm", "c a", "gradient", stage="backward")
        .program()
    )

    assert fused(program) == ((0,), (1, 2), (3,))


def test_values_saved_for_the_backward_pass_are_written_though_fused():
    program = (
        ProgramBuilder(x=8.0)
        .call("mm", "x", "a")
        .call("gelu", "a", "b")
        .call("gelu", "a b", "gradient", stage="backward", size_b=8.0)
        .program()
    )

    groups = fused(program)

    assert groups == ((0, 1), (2,))
    assert traffic(program, groups)[0][:3] == (8.0, 0.0, 16.0)


def test_work_in_place_on_a_part_leaves_the_whole_in_memory():
    program = (
        ProgramBuilder(x=8.0)
        .call("mm", "x", "whole")
        .call("relu_", "whole", "half_changed", read_b=4.0, size_b=4.0)
        .program()
    )

    groups = fused(program)

    assert groups == ((0,), (1,))
    assert sum(written_b for _, _, written_b, _ in traffic(program, groups)) == 12.0


def test_halves_of_a_value_are_both_read():
    program = (
        ProgramBuilder(x=8.0)
        .call("embedding", "x", "both")
        .call("gelu", "both", "left", read_b=4.0, size_b=4.0)
        .call("mul", "both left", "z", read_b=8.0, size_b=4.0)
        .program()
    )

    moved = traffic(program, ((0,), (1, 2)))

    assert moved[1] == (8.0, 0.0, 4.0, 0.0)


def test_an_input_that_a_whole_group_reads_is_read_once():
    program = ProgramBuilder(x=8.0).call("gelu", "x", "y").call("mul", "y x", "z").program()

    assert traffic(program, ((0, 1),)) == ((8.0, 0.0, 8.0, 8.0),)


def test_groups_that_leave_an_operator_out_are_refused():
    program = residual_block()

    with pytest.raises(ConfigError, match="exactly once"):
        traffic(program, fused(program)[1:])


@given(programs())
def test_every_operator_is_in_exactly_one_group(program):
    groups = fused(program)

    assert sorted(index for group in groups for index in group) == list(
        range(len(program.operators))
    )


@given(programs())
def test_no_group_reads_a_value_of_a_later_one(program):
    groups = fused(program)

    to_come = {value for operator in program.operators for value in operator.outputs}
    for index in (index for group in groups for index in group):
        assert not to_come & set(program.operators[index].inputs)
        to_come -= set(program.operators[index].outputs)


@given(programs())
def test_no_group_spans_two_stages(program):
    for group in fused(program):
        assert len({program.operators[index].stage for index in group}) == 1


@given(programs())
def test_fusion_never_adds_traffic(program):
    unfused_b = traffic(program, unfused(program))

    for group, moved in zip(fused(program), traffic(program, fused(program)), strict=True):
        for fused_b, *parts_b in zip(moved, *(unfused_b[index] for index in group), strict=True):
            assert 0 <= fused_b <= sum(parts_b) + 1e-9


@given(programs())
def test_operations_are_conserved(program):
    flop = sum(program.operators[index].flop for group in fused(program) for index in group)

    assert flop == pytest.approx(program.flop)


@given(programs())
def test_shares_of_values_sum_to_the_bytes_of_each_operator(program):
    moved = traffic(program, unfused(program))

    for operator, (read_b, weight_b, written_b, _) in zip(program.operators, moved, strict=True):
        assert (read_b, weight_b) == pytest.approx((operator.read_b, operator.weight_b))
        assert written_b == operator.written_b


def test_time_grows_linearly_with_the_program():
    short, long = (seconds_to_fuse(blocks) for blocks in (100, 800))

    assert long < 3 * 8 * short


def seconds_to_fuse(num_blocks):
    builder = ProgramBuilder(x0=8.0)
    for block in range(num_blocks):
        builder.call("mm", f"x{block}", f"a{block}").call("relu", f"a{block}", f"b{block}")
        builder.call("add", f"b{block} x{block}", f"x{block + 1}")
    program = builder.program()
    best_s = float("inf")
    for _ in range(5):
        start_s = time.process_time()
        traffic(program, fused(program))
        best_s = min(best_s, time.process_time() - start_s)
    return best_s


def test_libraries_multiply_apart_from_what_a_compiler_writes():
    program = residual_block()

    assert fused(program, apart=True) == ((0,), (1, 2), (3,), (4, 5, 6))


def test_a_compiler_picks_rows_within_the_kernel_that_reads_them():
    program = (
        ProgramBuilder(x=8.0)
        .call("embedding", "x", "rows")
        .call("native_layer_norm", "rows", "normal")
        .call("mm", "normal", "y")
        .program()
    )

    assert fused(program) == ((0,), (1,), (2,))
    assert fused(program, apart=True) == ((0, 1), (2,))
