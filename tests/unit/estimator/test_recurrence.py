"""What recurrent layers take, step after step, against what an H200 takes for them."""

from dataclasses import replace

import pytest
from programs_by_hand import model

from joulelab.core.point import OperatingPoint
from joulelab.estimator.pricing.kernel_class import kernel_class
from joulelab.estimator.pricing.kernel_count import num_kernels
from joulelab.estimator.pricing.run import conditions, launch_s, plan, run
from joulelab.hardware.processors import HOSTS, PROCESSORS, on_host
from joulelab.tracing.program import MatrixShape, Operator

H200 = on_host(PROCESSORS["h200_sxm"], HOSTS["typical"])
STEPS = 256
FORWARD, BACKWARD = "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"


def layer(cells, samples, name=FORWARD, *, steps=STEPS, width=None, gates=4):
    """Return a layer of cells in bf16, by default those of an LSTM."""
    batch, k = (2 if name == BACKWARD else 1) * steps, (width or cells) + cells
    shape = MatrixShape(batch=batch, m=samples, n=gates * cells, k=k, gates=gates)
    moved_b = 2.0 * steps * samples * cells
    return Operator(
        name=name,
        kind="gemm",
        dtype="bfloat16",
        pipe="tensor_bf16",
        flop=2.0 * shape.batch * shape.m * shape.n * shape.k,
        read_b=moved_b,
        weight_b=2.0 * gates * cells * ((width or cells) + cells),
        written_b=moved_b,
        shape=shape,
        steps=32.0 * shape.batch,
    )


def ran(operator, mode="graph", processor=H200):
    found = plan(model(operator), mode, processor.family)[0]
    return run(found, conditions(processor, mode, (OperatingPoint(),), 1))


def device_s(operator, processor=H200):
    return ran(operator, processor=processor).settled.device_s[0, 0]


@pytest.mark.parametrize(
    ("cells", "samples", "each_us"),
    [(512, 32, 4.9), (1024, 64, 6.7), (1024, 128, 8.5), (2048, 32, 11.0), (2048, 128, 22.5)],
)
def test_a_step_takes_what_its_two_kernels_do(cells, samples, each_us):
    """Kernels of some cases of experiments/results/h200_recurrent, without products of inputs.

    Kernels of two layers overlap there, so that they take longer than each would alone.
    """
    narrow = layer(cells, samples, width=1)

    assert device_s(narrow) / STEPS == pytest.approx(1e-6 * each_us, rel=0.35)


def test_steps_wait_for_each_other_and_their_inputs_do_not():
    once, twice = (device_s(layer(512, 32, steps=steps)) for steps in (256, 512))
    batched = device_s(layer(512, 64))

    assert twice == pytest.approx(2 * once, rel=0.05)
    assert batched < 1.2 * once


def memory_b(operator):
    """Return the bytes of the main memory."""
    return ran(operator).costs.moved_b[H200.memory.name][0]


def test_weights_come_from_the_memory_in_each_step_where_half_the_cache_is_too_small():
    assert memory_b(layer(2048, 1, width=1)) > STEPS * 2.0 * 4 * 2048**2
    assert memory_b(layer(1536, 1, width=1)) < 2 * 2.0 * 4 * 1536**2


def test_a_layer_of_one_step_reads_its_weights_once():
    one = layer(2048, 1, steps=1)

    assert memory_b(one) == pytest.approx(one.weight_b, rel=0.01)


def test_gradients_take_a_kernel_more_each_step():
    forward, backward = layer(1024, 64), layer(1024, 64, BACKWARD)

    assert kernel_class(backward) == "recurrent_backward"
    more_s = device_s(backward) - device_s(forward)
    assert more_s > STEPS * H200.timing.overhead_s((), is_matrix=False)
    assert launches_of(forward) == 2 * STEPS
    assert launches_of(backward) == 3 * STEPS


def test_the_host_sets_the_time_of_small_batches_and_a_graph_spares_it():
    small = layer(512, 32)

    eager, graph = (ran(small, mode) for mode in ("eager", "graph"))

    launches_s = launch_s(eager.plan, H200, "eager").sum()
    assert eager.latency_s[0] == pytest.approx(launches_s)
    assert 3.5e-3 < launches_s < 5e-3  # 4.0 ms a layer behind the host of an H200
    assert graph.latency_s[0] < 0.5 * eager.latency_s[0]
    assert eager.energy_j[0] / eager.latency_s[0] < graph.energy_j[0] / graph.latency_s[0]


@pytest.mark.parametrize(
    ("dtype", "cells", "samples", "taken_us"),
    [
        *(("float16", 64, 64, 299), ("float16", 192, 64, 1923), ("float16", 192, 1024, 3126)),
        *(("float32", 64, 64, 140), ("float32", 192, 64, 2935), ("float32", 64, 1024, 771)),
    ],
)
def test_few_cells_run_all_steps_in_one_kernel(dtype, cells, samples, taken_us):
    """Kernels of narrow_kernels.json.gz, of 336 steps, with what multiplies the inputs."""
    pipe = {"float16": "tensor_fp16", "float32": "tensor_tf32"}[dtype]
    one = replace(layer(cells, samples, steps=336, width=7), dtype=dtype, pipe=pipe)

    assert device_s(one) == pytest.approx(1e-6 * taken_us, rel=0.8)
    assert launches_of(one) == 2
    assert launches_of(layer(cells, samples, steps=336)) == 2 * 336  # never in bf16
    assert launches_of(replace(layer(256, samples, steps=336), dtype=dtype, pipe=pipe)) == 2 * 336


def launches_of(operator):
    return num_kernels(plan(model(operator), "eager", "gpu")[0].table, H200)[0]


@pytest.mark.parametrize("gates", [1, 3])
def test_a_layer_of_fewer_gates_takes_no_longer_and_launches_as_many_kernels(gates):
    """A GRU on an H200 was priced as a CPU's 13 kernels a step, 9 times as long."""
    lstm, other = layer(512, 32), layer(512, 32, gates=gates)

    assert device_s(other) <= device_s(lstm)
    assert device_s(other) > STEPS * H200.timing.overhead_s((), is_matrix=True)
    assert launches_of(other) == launches_of(lstm) == 2 * STEPS


@pytest.mark.parametrize(("gates", "of_step"), [(1, 3), (3, 13)])
def test_on_cpus_all_but_lstms_run_step_by_step(gates, of_step):
    found = plan(model(layer(512, 32, gates=gates)), "eager", "cpu")[0]

    assert num_kernels(found.table, PROCESSORS["xeon_8490h"]).tolist() == [of_step * STEPS]


def test_off_gpus_it_is_one_kernel():
    cpu = PROCESSORS["xeon_8490h"]
    found = plan(model(layer(512, 32)), "eager", "cpu")[0]

    assert num_kernels(found.table, cpu).tolist() == [1.0]
