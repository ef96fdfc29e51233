"""Calls that were answered before give what PyTorch's fake mode gives; traces leave nothing."""

import pytest
import torch
from torch import nn

from joulelab.estimator.models import sources, trace_model
from joulelab.tracing.calls import tensors_in
from joulelab.tracing.repeated_calls import RepeatedCalls
from joulelab.tracing.trace import fake_tensors, trace_program, trace_training
from joulelab.workloads.detection import Detection

aten = torch.ops.aten


def described(tensor):
    return (
        *(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.storage_offset()),
        tensor.untyped_storage().nbytes(),
    )


CONVOLUTION = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
CALLS = {
    "product": (aten.mm.default, lambda x: (x, x.t()), {}),
    "sum of two": (aten.add.Tensor, lambda x: (x, x), {"alpha": 2}),
    "reduction": (aten.sum.dim_IntList, lambda x: (x, [1]), {"keepdim": True}),
    "several results": (aten.var_mean.correction, lambda x: (x, [0]), {}),
    "of a list": (aten.cat.default, lambda x: ([x, x], 1), {}),
    "of another format": (aten._to_copy.default, lambda x: (x,), {"dtype": torch.float16}),
    "constant": (aten.full_like.default, lambda x: (x, 1.5), {}),
    "of a transposed tensor": (aten.relu.default, lambda x: (x.t(),), {}),
    "convolution": (
        aten.convolution.default,
        lambda x: (x[None, None], x[None, None, :2, :2], *CONVOLUTION),
        {},
    ),
}
VIEWS = {
    "transposed": (aten.t.default, ()),
    "cut": (aten.slice.Tensor, (1, 2, 5)),
    "reshaped": (aten.view.default, ([2, 12],)),
    "repeated": (aten.expand.default, ([3, 4, 6],)),
    "undeclared": (aten._unsafe_view.default, ([24],)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_answered_the_second_time_with_a_like_new_tensor(name):
    func, make_args, kwargs = CALLS[name]
    with fake_tensors():
        x = torch.empty(4, 6)
        calls = RepeatedCalls()
        args = make_args(x)

        expected = func(*args, **kwargs)
        first, second = (calls.run(func, args, kwargs) for _ in range(2))

        wanted = tensors_in(expected)
        for answer in (first, second):
            assert type(answer) is type(expected)
            assert [described(each) for each in tensors_in(answer)] == [*map(described, wanted)]
        storages = {each.untyped_storage()._cdata for each in tensors_in([first, second])}
        assert len(storages) == 2 * len(wanted)


def test_what_one_trace_asked_is_answered_to_the_next_with_tensors_of_its_own(monkeypatch):
    monkeypatch.setattr("joulelab.tracing.repeated_calls._MOST_KNOWN", 1)
    calls = RepeatedCalls()
    for _ in range(2):
        with fake_tensors():
            x = torch.empty(4, 6)

            found = calls.run(aten.mm.default, (x, x.t()), {})

            assert found.fake_mode is x.fake_mode
            assert len(calls._known) == 1

    with fake_tensors():
        calls.run(aten.relu.default, (torch.empty(4, 6),), {})
    assert [func for func, *_ in calls._known] == [aten.relu.default]  # the others made room


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_the_storage_of_its_base(name):
    func, sizes = VIEWS[name]
    with fake_tensors():
        x = torch.empty(4, 6)

        found = RepeatedCalls().run(func, (x, *sizes), {})

        assert described(found) == described(func(x, *sizes))
        assert found.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_every_part_of_a_split_shares_the_storage():
    with fake_tensors():
        x = torch.empty(4, 6)

        parts = RepeatedCalls().run(aten.split.Tensor, (x, 2, 1), {})

        assert [described(part) for part in parts] == [described(part) for part in x.split(2, 1)]
        assert {part.untyped_storage()._cdata for part in parts} == {x.untyped_storage()._cdata}


def test_a_call_in_place_returns_the_tensor_that_it_changes():
    with fake_tensors():
        x = torch.empty(4, 6)
        calls = RepeatedCalls()

        assert calls.run(aten.add_.Tensor, (x, 1), {}) is x
        assert calls.run(aten.add_.Tensor, (x, 1), {}) is x


def test_numbers_that_are_equal_but_of_other_types_are_not_mixed_up():
    with fake_tensors():
        x = torch.empty(4, dtype=torch.long)
        calls = RepeatedCalls()

        whole, real = (calls.run(aten.mul.Tensor, (x, factor), {}) for factor in (2, 2.0))

        assert (whole.dtype, real.dtype) == (torch.long, torch.float32)


def test_values_that_a_program_makes_itself_stay_known():
    with fake_tensors():
        two = torch.tensor(2)
        calls = RepeatedCalls()

        doubled = [calls.run(aten.add.Tensor, (two, 2), {}) for _ in range(2)]

        assert [each.item() for each in doubled] == [4, 4]


def test_real_tensors_are_computed():
    x = torch.ones(2)
    calls = RepeatedCalls()

    sums = [calls.run(aten.add.Tensor, (factor * x, x), {}) for factor in (1, 2)]

    assert [each.tolist() for each in sums] == [[2, 2], [3, 3]]


def asked_every_time(calls, func, args, kwargs):
    return func(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "training"),
    [("mobilenet_v3_small", False), ("hf:gpt2?n_layer=3", False), ("hf:gpt2?n_layer=3", True)],
)
def test_a_network_is_traced_as_if_every_call_were_asked(name, training, monkeypatch, tmp_path):
    found = []
    for turn in range(2):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(turn)))  # no trace is kept there
        sources._traced.cache_clear()
        sources._model_at.cache_clear()
        found.append(trace_model(name, batch=2, precision="bf16", training=training))
        monkeypatch.setattr(RepeatedCalls, "run", asked_every_time)

    assert found[0] == found[1]


def test_layers_in_a_row_cost_the_same_and_are_alive_one_by_one():
    with fake_tensors():
        layers = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(4)))
        x = torch.empty(2, 8)

        program = trace_program(lambda: layers(x), network=layers, inputs=x)

    assert [operator.flop for operator in program.operators] == [2 * 2 * 8 * 8] * 4
    assert program.live_b == (64.0, 128.0, 128.0, 128.0)


def test_a_second_trace_of_a_recurrent_network_equals_the_first():
    """PyTorch's own cache gave two results of the backward pass, one tensor, storages of their own.

    A first trace of it in a process then counted other operators than a second.
    """
    with fake_tensors():
        layer = nn.LSTM(8, 16)
        x = torch.empty(4, 2, 8)
        first, second = (
            trace_training(lambda: layer(x)[0], network=layer, inputs=x) for _ in range(2)
        )

    assert first == second


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
