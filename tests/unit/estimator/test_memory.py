"""What a program needs of a device's memory, against sums made by hand."""

from dataclasses import replace

import pytest
from estimates_by_hand import processor
from hand_made_programs import ProgramBuilder

from joulelab.errors import ConfigError
from joulelab.estimator.pricing.memory import largest_batch, memory

WITHOUT_PRODUCTS = ProgramBuilder(x=1.0).call("relu", "x", "y").call("relu", "y", "z")


def step(**changes):
    """A training step: 2 GB of weights, gradients and a cache, 6 GB alive at its peak."""
    made = replace(
        WITHOUT_PRODUCTS.program(),
        parameter_b=2e9,
        input_b=1.5e9,
        kv_b=0.5e9,
        live_b=(4e9, 6e9),
        peak_live_b=6e9,
        optimizer_b=4e9,
        gradient_b=2e9,
    )
    return replace(made, **changes)


def of_size(gigabytes):
    level = replace(processor().memory, size_b=gigabytes * 1e9)
    return processor(levels=(*processor().levels[:-1], level))


def at_batch(batch, *, gigabytes=80.0, fixed=7e9, per_sample=2e9):
    """Memory with weights of ``fixed`` bytes and ``per_sample`` activations for each sample."""
    return memory(
        step(
            parameter_b=fixed,
            input_b=0.0,
            kv_b=0.0,
            optimizer_b=0.0,
            gradient_b=0.0,
            live_b=(),
            peak_live_b=batch * per_sample,
        ),
        of_size(gigabytes),
    )


def test_every_byte_is_counted_once():
    found = memory(step(), processor())

    assert found.peak_b == 2e9 + 1.5e9 + 4e9 + 6e9
    assert (found.weight_b, found.kv_b, found.input_b) == (2e9, 0.5e9, 1e9)
    assert (found.optimizer_b, found.gradient_b, found.activation_b) == (4e9, 2e9, 4e9)


def test_the_timeline_is_what_stays_plus_what_is_alive():
    found = memory(step(), processor())

    assert found.timeline_b == (7.5e9 + 4e9, 7.5e9 + 6e9)
    assert max(found.timeline_b) == found.peak_b


def test_the_peak_inside_an_operator_counts_though_the_timeline_does_not_show_it():
    found = memory(step(peak_live_b=9e9), processor())

    assert found.peak_b == 7.5e9 + 9e9
    assert max(found.timeline_b) == 7.5e9 + 6e9


def test_more_gradients_than_live_values_are_refused():
    with pytest.raises(ConfigError, match="part of peak_live_b"):
        memory(step(gradient_b=7e9), processor())


@pytest.mark.parametrize(
    ("architecture", "size_b"),
    [
        ("Ampere", 2 * 4096 * 1024 + 8 * 16 * 1024),
        ("Hopper", 32 * 2**20),
        ("Blackwell", 32 * 2**20),
    ],
)
def test_products_on_a_gpu_need_the_scratch_space_of_their_library(architecture, size_b):
    product = ProgramBuilder(x=1.0).call("mm", "x", "y").program()

    found = memory(product, processor(architecture=architecture))

    assert found.workspace_b == found.peak_b == size_b


@pytest.mark.parametrize(("family", "name"), [("gpu", "convolution"), ("cpu", "mm"), ("tpu", "mm")])
def test_convolutions_and_other_processors_need_no_scratch_space(family, name):
    program = ProgramBuilder(x=1.0).call(name, "x", "y").program()

    assert memory(program, processor(family=family)).workspace_b == 0.0


def test_a_program_that_does_not_fit_is_told_by_how_much_and_why():
    found = memory(step(), of_size(12))

    assert not found.fits
    assert found.peak_b - found.capacity_b == 1.5e9


@pytest.mark.parametrize("gigabytes", [8.9, 9.0, 10.9, 11.0, 80.0])
def test_the_largest_batch_fits_and_one_more_does_not(gigabytes):
    largest = largest_batch(at_batch(1, gigabytes=gigabytes), at_batch(2, gigabytes=gigabytes))

    assert largest == (gigabytes - 7) // 2
    assert largest == 0 or at_batch(largest, gigabytes=gigabytes).fits
    assert not at_batch(largest + 1, gigabytes=gigabytes).fits


def test_any_two_batches_tell_the_same_largest_one():
    by_first = largest_batch(at_batch(1), at_batch(2))
    by_others = largest_batch(at_batch(4), at_batch(16), batches=(4, 16))

    assert by_first == by_others == 36


def test_memory_that_does_not_grow_sets_no_limit():
    constant = at_batch(1, per_sample=0.0)

    assert largest_batch(constant, constant) is None


def test_memory_that_does_not_grow_and_does_not_fit_allows_no_sample():
    constant = at_batch(1, per_sample=0.0, gigabytes=1.0)

    assert largest_batch(constant, constant) == 0


def test_memory_of_two_devices_is_refused():
    with pytest.raises(ConfigError, match="one device"):
        largest_batch(at_batch(1), at_batch(2, gigabytes=40.0))


def test_batches_that_do_not_grow_are_refused():
    with pytest.raises(ConfigError, match="increasing"):
        largest_batch(at_batch(2), at_batch(2), batches=(2, 2))
