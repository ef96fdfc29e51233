"""What would save memory is traced, or counted where it is the optimizer's."""

import pytest

from joulelab.estimator.api import fits
from joulelab.estimator.models import trace_model
from joulelab.estimator.question import Question
from joulelab.estimator.savings import memory_hints

NETWORK = """
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)
        )

    def forward(self, x):
        return x + self.layers(x)


class Net(torch.nn.Module):
    def __init__(self, blocks=8):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(blocks)))

    def forward(self, x):
        return self.blocks(x)


def example_inputs(batch):
    return torch.ones(batch, 64)
"""


@pytest.fixture
def name(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NETWORK)
    return f"{path}:Net"


def hints_of(name, *, training, batch=4096):
    question = Question(
        models=(name,),
        devices=("l4",),
        precisions=("fp32",),
        batches=(batch,),
        training=training,
    )
    (fit,) = fits(question, progress=lambda _: None)
    found = memory_hints(question, fit, progress=lambda _: None)
    return fit, {hint.title: hint for hint in found}


def test_checkpointing_keeps_the_inputs_of_blocks_alone(name):
    fit, hints = hints_of(name, training=True)

    saved_b = hints["Gradient checkpointing of repeated blocks"].saved_b
    inner_b = 4096 * 256 * 4  # of the hidden layer, which is kept once for its two uses
    assert saved_b == pytest.approx(7 * inner_b, rel=0.1)
    assert saved_b < fit.worst.activation_b


def test_checkpointing_computes_again_what_the_backward_pass_needs(name):
    plain, again = (
        trace_model(name, batch=8, precision="fp32", training=True, remedy=remedy)
        for remedy in ("", "checkpointed")
    )

    flop = [
        sum(one.flop for one in traced.phases[0].program.operators if one.kind == "gemm")
        for traced in (plain, again)
    ]
    # Of 8 blocks 16 products and twice as many of gradients, but that of the inputs; again the
    # first product of each block: nothing needs the second's result.
    assert flop[1] / flop[0] == pytest.approx((47 + 8) / 47)


def test_what_an_optimizer_keeps_is_counted(name):
    fit, hints = hints_of(name, training=True, batch=1)

    assert hints["SGD without momentum, not AdamW"].saved_b == fit.worst.optimizer_b
    assert hints["SGD with momentum, not AdamW"].saved_b == fit.worst.optimizer_b / 2


def test_activations_in_place_save_memory_of_inference(name):
    # The hidden layer is there once, not twice; then it meets the block's result.
    _, hints = hints_of(name, training=False)

    assert hints["Activation functions in place"].saved_b == 4096 * (256 - 64) * 4
    assert len(hints) == 1
