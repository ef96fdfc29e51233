"""Networks that run and networks that are traced share no positions that transformers remembers."""

import torch

from joulelab.workloads.detection import Detection

_KNOBS = {"model": "tiny", "precision": "fp32", "image_size": 96}


def _detect():
    workload = Detection.from_knobs(_KNOBS)
    workload.prepare()
    try:
        return workload.run("forward")
    finally:
        workload.close()


def test_a_network_runs_after_one_like_it_was_traced():
    Detection.from_knobs(_KNOBS).cost()

    assert _detect() == 1


def test_what_a_trace_counts_does_not_depend_on_what_ran_before():
    before = Detection.from_knobs(_KNOBS).cost()
    _detect()

    assert Detection.from_knobs(_KNOBS).cost() == before


def test_a_trace_leaves_transformers_as_it_was():
    from transformers import pytorch_utils

    Detection.from_knobs(_KNOBS).cost()

    assert not pytorch_utils.is_torchdynamo_compiling()
    assert torch._guards.active_fake_mode() is None
