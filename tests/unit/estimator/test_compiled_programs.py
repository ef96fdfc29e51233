"""What compilers leave out, on programs small enough to prune by hand."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from programs_by_hand import pointwise, product

from joulelab.estimator.pricing.run import pruned
from joulelab.tracing.program import MatrixShape, Program, ProgramPhase, TracedModel

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from published_predictions import narrowed


def program(*operators):
    return Program(operators=operators, parameter_b=0.0)


def pooling(**changes):
    """Writes maxima (value 1) and where they were (value 2)."""
    pooled = pointwise(400.0, 900.0, kind="reduction", name="max_pool2d_with_indices")
    return replace(
        pooled,
        inputs=(0,),
        inputs_b=(400.0,),
        outputs=(1, 2),
        outputs_b=(100.0, 800.0),
        **changes,
    )


def reading(value, size_b, *, into):
    made = pointwise(size_b)
    return replace(made, inputs=(value,), inputs_b=(size_b,), outputs=(into,), outputs_b=(size_b,))


def convolution(*, read_b, shape, **changes):
    made = product(1, 1, 1, precision="int8", kind="conv", name="convolution")
    sizes = {"read_b": read_b, "inputs": (0,), "inputs_b": (read_b,), "shape": shape}
    return replace(made, **{"dtype": "int8", **sizes, **changes})


def test_a_by_product_that_nothing_reads_is_not_written():
    pooled, after = pruned(program(pooling(), reading(1, 100.0, into=3))).operators

    assert (pooled.outputs, pooled.outputs_b, pooled.written_b) == ((1,), (100.0,), 100.0)
    assert after == reading(1, 100.0, into=3)


def test_what_a_backward_pass_reads_is_kept():
    whole = program(pooling(), reading(1, 100.0, into=3), reading(2, 800.0, into=4))

    assert pruned(whole) == whole


def test_results_of_the_program_are_kept_though_nothing_reads_them():
    whole = program(pooling())

    assert pruned(whole) == whole


def test_a_strided_convolution_of_single_pixels_reads_every_fourth_of_them():
    strided = convolution(read_b=4096.0, shape=MatrixShape(batch=1, m=16, n=128, k=64))

    (made,) = pruned(program(strided)).operators

    assert made.read_b == 16 * 64  # one byte each
    assert made.inputs_b == (16 * 64,)


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_windows_that_overlap_read_their_image_once(stage):
    windows = MatrixShape(batch=1, m=64, n=128, k=64 * 9)
    whole = program(convolution(read_b=4096.0, shape=windows, stage=stage))

    assert pruned(whole) == whole


def test_a_network_of_eight_bits_keeps_its_scores_in_sixteen():
    first = convolution(read_b=100.0, shape=None, outputs=(1,), outputs_b=(200.0,), written_b=200.0)
    between = reading(1, 200.0, into=2)
    last = convolution(read_b=100.0, shape=None, outputs=(3,), outputs_b=(80.0,), written_b=80.0)
    last = replace(last, inputs=(2,))
    chosen = reading(3, 80.0, into=4)

    made = narrowed(_model(first, between, last, chosen)).phases[0].program.operators

    assert [one.written_b for one in made] == [100.0, 100.0, 80.0, 80.0]
    assert [one.read_b for one in made] == [100.0, 100.0, 100.0, 80.0]
    assert [sum(one.inputs_b) for one in made] == [one.read_b for one in made]


def _model(*operators):
    phase = ProgramPhase(phase="forward", work=1.0, program=program(*operators))
    return TracedModel(name="net", unit="item", batch=1, precision="int8", phases=(phase,))
