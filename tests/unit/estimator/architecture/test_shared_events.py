"""Events that all families have, and their hierarchy."""

from dataclasses import replace

import pytest
from group_works import gemm, gpu, group, level, streaming

from joulelab.estimator.architecture.common import (
    core_events,
    memory_events,
    standby_w_of,
    static_events,
)
from joulelab.hardware.processor import Figure
from joulelab.tracing.precision import element_b


def by_path(found):
    return {event.path: event for event in found}


def test_static_energy_is_that_of_the_power_model():
    work = group(gemm(64, 64, 64), device_s=2.0, wait_s=3.0, clock_mhz=1000.0, waiting_mhz=2000.0)

    found = list(static_events(work, gpu()))

    # 10 W constant; 2 W per GHz at 1 GHz, and at 2 GHz twice the voltage: 16 W.
    assert sum(event.raw_j for event in found) == pytest.approx(2 * (10 + 2) + 3 * (10 + 16))
    clocks = by_path(found)["static/waiting for launch/clock distribution"]
    assert clocks.count == pytest.approx(3 * 2e9)
    assert clocks.raw_j == pytest.approx(3 * 16)


def test_memory_at_rest_is_a_part_of_constant_power():
    small = gpu()
    stated = replace(
        small, figures={"power.memory_idle_w": Figure(value=2.5, status="E", source="x")}
    )
    large = replace(small, levels=(level("L2", 4e6), level("DRAM", 1e12)))

    assert standby_w_of(small) == pytest.approx(16e9 * 36.1 / 150.8e9)
    assert standby_w_of(stated) == 2.5
    assert standby_w_of(large) == 5.0


def test_busy_cores_divide_between_operations_and_data():
    work = group(gemm(64, 64, 64), clock_mhz=2000.0, busy=0.5, core_share=0.25)

    computing, waiting = core_events(work, gpu())

    # 3 W per GHz, half of the cores, 2 GHz, twice the voltage, for 1 ms.
    assert computing.raw_j + waiting.raw_j == pytest.approx(3 * 0.5 * 2 * 4 * 1e-3)
    assert computing.raw_j / waiting.raw_j == pytest.approx(1 / 3)


def test_memory_energy_is_bytes_at_the_processors_price_and_voltage():
    work = group(streaming(3e6, 1e6), moved_b={"L2": 4e6, "DRAM": 2e6}, clock_mhz=2000.0)

    found = by_path(memory_events(work, gpu()))

    assert found["memory/L2/read"].raw_j == pytest.approx(3e6 * 2e-11 * 4)
    assert found["memory/DRAM/write"].raw_j == pytest.approx(0.5e6 * 6e-11)


def test_bytes_sent_to_peers_are_an_event_where_there_are_any():
    processor = replace(gpu(), link_byte_j=1e-11)
    work = group(streaming(1e6, 1e6), moved_b={"L2": 2e6, "DRAM": 0.0, "link": 5e6})

    found = by_path(memory_events(work, processor))

    assert found["memory/link to peers/transfer"].raw_j == pytest.approx(5e6 * 1e-11)
    assert len(list(memory_events(group(streaming(1e6, 1e6)), processor))) == 4


def test_operators_fused_between_memory_and_memory_move_bytes_at_their_boundary_alone():
    product, relu = gemm(64, 64, 64), streaming(64 * 64 * 2.0, 64 * 64 * 2.0, flop=64.0 * 64)
    fused = group(
        product,
        relu,
        read_b=product.read_b,
        weight_b=product.weight_b,
        written_b=relu.written_b,
    )

    assert fused.stream_b == 0
    assert fused.vector_flop == {"fp32": 64 * 64}
    assert group(product, relu).stream_b == relu.moved_b


def test_a_product_of_unknown_shape_is_a_cube_of_as_many_operations():
    operator = replace(gemm(100, 10, 1000), shape=None)

    (product,) = group(operator, count=3).products

    assert product.shape.m == product.shape.n == product.shape.k == 100
    assert product.flop == pytest.approx(3 * operator.flop)


@pytest.mark.parametrize(("dtype", "size_b"), [("int4", 2), ("int8", 1), ("int64", 8), ("bool", 1)])
def test_an_element_has_one_size_wherever_it_is_counted(dtype, size_b):
    """Weights of four bits took two bytes in products, which are in half precision, and four here.

    Their products were right; streams of them moved half as many elements as they have.
    """
    work = group(replace(streaming(100.0, 100.0), dtype=dtype))

    assert work.element_b == element_b(dtype) == size_b
