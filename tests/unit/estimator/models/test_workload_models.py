"""Measured workloads are estimated as they are measured."""

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models import trace_model
from joulelab.workloads.llama import Llama, LlamaSettings

KNOBS = {"model": "tiny", "prompt_tokens": 32, "new_tokens": 5}


def traced(name, **options):
    return trace_model(f"workload:{name}", **{"batch": 1, "precision": "bf16", **options})


def test_a_gemm_has_one_operator_repeated():
    model = traced("gemm", n=256)
    phase = model.phases[0]

    assert (model.unit, len(phase.program.operators)) == ("TFLOP", 1)
    assert phase.program.flop == 2 * 256**3
    assert phase.work == pytest.approx(phase.count * 2 * 256**3 / 1e12)


def test_a_copy_moves_each_buffer_once():
    phase = traced("stream", precision="fp32", size_gb=0.5).phases[0]

    (operator,) = phase.program.operators
    assert (operator.read_b, operator.written_b) == (0.5e9, 0.5e9)


def test_llama_asks_of_a_device_what_the_workload_counts_as_its_cost():
    model = traced("llama", batch=2, **KNOBS)
    settings = LlamaSettings(model="tiny", batch=2, prompt_tokens=32, new_tokens=5)

    cost = Llama(settings).cost()

    for phase in model.phases:
        counted = cost.phase(phase.phase)
        assert phase.work == counted.work
        assert phase.count * phase.program.flop == pytest.approx(counted.flop)
        moved_b = sum(each.moved_b for each in phase.program.operators)
        assert phase.count * moved_b == pytest.approx(counted.dram_b, rel=1e-3)


@pytest.mark.parametrize("name", ["idle", "recorded"])
def test_a_workload_that_computes_nothing_is_refused(name):
    with pytest.raises(ConfigError, match=r"nothing|recorded"):
        traced(name)


def test_a_workload_takes_its_own_knobs_alone():
    with pytest.raises(UnknownNameError, match="size_gb"):
        traced("stream", n=5)


def test_a_workload_without_a_batch_takes_batch_one_alone():
    with pytest.raises(ConfigError, match="no batch"):
        traced("stream", batch=2, precision="fp32")


def test_a_precision_that_the_workload_lacks_is_refused():
    with pytest.raises(ConfigError, match="precision"):
        traced("llama", precision="fp64", **KNOBS)
