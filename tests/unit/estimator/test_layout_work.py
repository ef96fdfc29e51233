"""What convolutions take to change layouts, against closed forms on round figures."""

from dataclasses import replace

import pytest
from programs_by_hand import model, plain_processor, product, with_timing

from joulelab.estimator.pricing.predict import estimate
from joulelab.tracing.program import MatrixShape

PLAIN = plain_processor()
CHANGING = with_timing(PLAIN, layout_efficiency=0.5)
PROFILED = with_timing(PLAIN, kind_efficiency={"pixel_convolution": 1.0})
PROFILED_CHANGING = with_timing(PROFILED, layout_efficiency=0.5)
CACHE_B_PER_S, MEMORY_B_PER_S = 10e12, 1e12


def convolution(pixels, channels, *, images=1, n=64, window=1, skipped=1, layout="plain"):
    """Return one of so many pixels, of which every ``skipped``-th is a result."""
    k, results = channels * window, pixels // skipped
    return product(
        *(images * results, n, k),
        kind="conv",
        name="convolution",
        layout=layout,
        shape=MatrixShape(batch=1, m=images * results, n=n, k=k, window=window, pixels=results),
        read_b=2.0 * images * pixels * channels,
    )


def device_s(operator, processor=CHANGING, mode="eager"):
    return (
        estimate(model(operator, parameter_b=0.0), processor, mode=mode)
        .phases[0]
        .groups[0]
        .device_s
    )


def added_s(operator, mode="eager"):
    """Return how much longer a convolution takes where it changes its layout."""
    return device_s(operator, mode=mode) - device_s(operator, PLAIN, mode)


def image_s(moved_b, size_b):
    """Return how long a change of so many bytes takes, of which a part is in the cache."""
    missed = size_b / PLAIN.last_cache.size_b
    return moved_b * ((1 - missed) / CACHE_B_PER_S + missed / MEMORY_B_PER_S) / 0.5


def test_images_go_there_and_back_and_weights_follow():
    window = convolution(1024, 64, window=32)

    size_b = 2.0 * 1024 * (64 + 64)
    weights_s = 2.0 * 64 * 64 * 32 * (1 / CACHE_B_PER_S + 1 / MEMORY_B_PER_S) / 0.5
    assert added_s(window) == pytest.approx(image_s(2 * size_b, size_b) + weights_s)


def test_a_window_takes_a_whole_tile_to_change():
    of_9, of_32 = (added_s(convolution(1024, 64, n=4096, window=window)) for window in (9, 32))

    images_s = image_s(4 * 1024 * (64 + 4096), 2 * 1024 * (64 + 4096))
    assert of_9 - images_s == pytest.approx(of_32 - images_s)  # though it has 9 / 32 of the weights


def test_an_image_of_few_channels_takes_whole_tiles_too():
    few, many = (added_s(convolution(1024, channels, n=32, window=32)) for channels in (8, 32))

    assert few == pytest.approx(many, rel=0.02)  # fewer bytes of images are in the cache


def test_products_over_pixels_in_whole_units_lie_as_they_must():
    assert added_s(convolution(1024, 64)) == pytest.approx(0)


def test_pixels_that_are_skipped_have_to_be_gathered():
    gathered = convolution(1024, 64, skipped=4)

    size_b = 2.0 * (1024 * 64 + 256 * 64)
    assert added_s(gathered) == pytest.approx(image_s(2 * size_b, size_b))


@pytest.mark.parametrize(("pixels", "n", "times"), [(1022, 4, 4), (1023, 2, 8)])
def test_rows_that_are_no_whole_units_are_loaded_in_parts_where_that_takes_less(pixels, n, times):
    few = convolution(pixels, 16, n=n)

    longer = replace(few, flop=times * few.flop)
    assert device_s(few, PROFILED_CHANGING) == pytest.approx(device_s(longer, PROFILED))


def test_rows_that_are_no_whole_units_change_their_layout_where_that_takes_less():
    many = convolution(1023, 2048, n=2048)
    direct_s = 7 * many.flop / 100e12

    size_b = 2.0 * 1023 * (2048 + 2048)
    changed_s = image_s(2 * size_b, size_b) * 1024 / 1023  # whole tiles of pixels
    assert changed_s < direct_s
    added_s = device_s(many, PROFILED_CHANGING) - device_s(many, PROFILED)
    assert added_s == pytest.approx(changed_s)


def test_uneven_rows_take_half_a_change_where_nobody_has_profiled_them():
    uneven = convolution(1023, 2048, n=2048)

    size_b = 2.0 * 1023 * (2048 + 2048)
    assert added_s(uneven) == pytest.approx(image_s(size_b, size_b) * 1024 / 1023)


@pytest.mark.parametrize(
    ("operator", "mode"),
    [
        (convolution(1024, 64, window=9, layout="channels_last"), "eager"),
        (convolution(1024, 64, window=9), "compiled"),
    ],
)
def test_what_lies_side_by_side_already_is_left_as_it_is(operator, mode):
    assert added_s(operator, mode) == pytest.approx(0)


def test_a_launch_whose_window_is_not_known_takes_what_overlapping_windows_do():
    """Simulated GPUs know a launch's cost alone; ResNet-50 took them four times as long."""
    known = convolution(1024, 64, n=64, window=9)
    cost = replace(known, shape=replace(known.shape, window=1, pixels=0))

    weights_s = 2.0 * 64 * 64 * 32 * (1 / CACHE_B_PER_S + 1 / MEMORY_B_PER_S) / 0.5
    assert added_s(cost) == pytest.approx(added_s(known) - weights_s)
