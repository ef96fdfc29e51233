"""How shapes fill tiles and engines, against counts by hand."""

import numpy as np
import pytest

from joulelab.estimator.pricing.occupancy import utilisation
from joulelab.estimator.pricing.table import Shapes
from joulelab.hardware.processor import MatrixEngine

GPU = MatrixEngine(num_engines=132, tiles=((128, 256, 1.0), (128, 128, 1.0), (64, 64, 0.7)))
ARRAY = MatrixEngine(num_engines=2, tiles=((128, 128, 1.0),), depth=256)


def shapes(*sizes):
    batch, m, n, k = np.array(sizes, dtype=float).T
    ones = np.ones_like(m)
    return Shapes(batch=batch, m=m, n=n, k=k, window=ones, pixels=ones)


def use(engine, *size, plain=False):
    rate, busy = utilisation(shapes(size), engine, plain=plain)
    return float(rate[0]), float(busy[0])


def reference(engine=GPU):
    blocks = 8192 * 8192 / (128 * 128)
    return blocks / (np.ceil(blocks / engine.num_engines) * engine.num_engines)


def test_a_product_of_8192_is_the_reference():
    assert use(GPU, 1, 8192, 8192, 8192) == (1.0, 1.0)


def test_one_tile_more_than_there_are_engines_costs_a_whole_wave():
    engine = MatrixEngine(num_engines=132, tiles=((128, 128, 1.0),))

    full, _ = use(engine, 1, 128, 128 * 132, 64)
    tail, _ = use(engine, 133, 128, 128, 64)

    assert full == pytest.approx(1 / reference())
    assert tail / full == pytest.approx(133 / 264)


def test_edges_of_tiles_are_computed_in_vain():
    one_engine = MatrixEngine(num_engines=1, tiles=((100, 100, 1.0),))

    rate, _ = use(one_engine, 1, 150, 200, 64)

    edge = 8192**2 / 8200**2
    assert rate == pytest.approx(150 * 200 / (200 * 200) / edge)


def test_tiles_lie_or_stand_as_fits_better():
    assert use(GPU, 1, 256, 128 * 132, 64)[0] == use(GPU, 1, 128 * 132, 256, 64)[0]


def test_long_dot_products_are_split_over_idle_engines():
    _, alone = use(GPU, 1, 128, 128, 256)
    _, split = use(GPU, 1, 128, 128, 256 * 33)

    assert alone == pytest.approx(4 / 132)
    assert split == 1.0


def test_thin_products_waste_no_rows_on_plain_units():
    rate, _ = use(GPU, 1, 1, 64 * 132, 64, plain=True)
    thin, _ = use(GPU, 1, 1, 64 * 132, 64)

    assert rate == pytest.approx(0.7 / reference())
    assert thin == pytest.approx(0.7 / 8 / reference())


@pytest.mark.parametrize(("plain", "waves"), [(True, 516 / 528), (False, 172 / 264)])
def test_thin_products_split_dot_products_over_several_waves_on_plain_units(plain, waves):
    engine = MatrixEngine(num_engines=132, tiles=((64, 64, 1.0),))

    rate, _ = use(engine, 1, 64, 64 * 172, 4096, plain=plain)

    assert rate == pytest.approx(waves / (16384 / (125 * 132)))


def test_a_systolic_array_fills_and_drains_at_every_pass():
    short, _ = use(ARRAY, 1, 256, 256, 256)
    long, _ = use(ARRAY, 1, 65536, 256, 256)

    assert short / long == pytest.approx((256 / 512) / (65536 / 65792))


def test_rows_are_shared_out_where_weights_make_one_pass():
    one_pass, busy = use(ARRAY, 1, 4096, 128, 128)
    two_passes, _ = use(ARRAY, 1, 2048, 256, 128)

    assert busy == 1.0
    assert one_pass == pytest.approx(two_passes)


def test_a_cpu_takes_as_long_for_each_row_of_few():
    for plain in (False, True):
        one, two = (
            utilisation(shapes((1, rows, 4096, 4096)), GPU, plain=plain, on_cpu=True)[0]
            for rows in (1, 2)
        )
        assert two == pytest.approx(one)


def test_rates_and_shares_are_positive_and_bounded():
    random = np.random.default_rng(0)
    many = shapes(*(10 ** random.uniform(0, 4, (500, 4))).astype(int))

    for engine in (GPU, ARRAY):
        rate, busy = utilisation(many, engine, plain=False)
        assert (rate > 0).all()
        assert (rate <= 1.05).all()
        assert ((busy > 0) & (busy <= 1)).all()
