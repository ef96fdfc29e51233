"""Memory of a traced program, against closed forms and against PyTorch's own tracker."""

import gc

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

from joulelab.tracing.fast_paths import without_fast_paths
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program, trace_training

KIB = 1024
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def configured(name, **options):
    ensure_torchvision()
    from transformers import AutoConfig, AutoModel

    return AutoModel.from_config(AutoConfig.for_model(name, **options))


def image(size):
    return lambda: torch.empty(2, 3, size, size)


def tokens():
    return torch.zeros(2, 7, dtype=torch.long)


NETWORKS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
        lambda: torch.empty(3, 8),
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(72, 2),
        ),
        image(8),
    ),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0),
        lambda: torch.empty(3, 9, 32),
    ),
    "llama": (lambda: configured("llama", **SMALL, num_key_value_heads=4), tokens),
    "bert": (
        lambda: configured(
            "bert", **SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        ),
        tokens,
    ),
    "resnet": (
        lambda: configured("resnet", embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2]),
        image(32),
    ),
    "vit": (
        lambda: configured(
            "vit",
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
        ),
        image(32),
    ),
}


@pytest.fixture(autouse=True)
def no_garbage_collection():
    """Whether cyclic garbage is freed in one of two runs would be chance."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def peak_b(step, *held, gradients=False):
    """Return the most bytes that ``step`` makes, as PyTorch's own tracker counts them."""
    tracker = MemTracker()
    tracker.track_external(*held)
    held_b = _total_b(tracker, "current")
    with torch.set_grad_enabled(gradients), tracker:
        step()
    return _total_b(tracker, "peak") - held_b


def _total_b(tracker, which):
    return sum(kinds["Total"] for kinds in tracker.get_tracker_snapshot(which).values())


@pytest.mark.parametrize("name", NETWORKS)
def test_peak_activations_equal_those_of_pytorchs_tracker(name):
    build, make_input = NETWORKS[name]
    with fake_tensors(), without_fast_paths():  # their one kernel makes unseen values on a CPU
        network, x = fake_network(build).eval(), make_input()

        program = trace_program(lambda: network(x), network=network, inputs=x)

        assert program.peak_live_b == peak_b(lambda: network(x), network, x) > 0


@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_of_a_training_step_equals_that_of_pytorchs_tracker(name, optimizer_class):
    build, make_input = NETWORKS[name]
    with fake_tensors():
        network, x = fake_network(build).train(), make_input()
        optimizer = optimizer_class(network.parameters(), lr=0.1, foreach=True)

        def step():
            output = network(x)
            output = output if isinstance(output, torch.Tensor) else output[0]
            output.sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        with torch.enable_grad():
            step()  # makes the state of the optimizer
        gc.collect()
        program = trace_program(
            step, network=network, inputs=x, optimizer=optimizer, gradients=True
        )
        gc.collect()

        assert program.peak_live_b == peak_b(step, network, x, optimizer, gradients=True) > 0


def test_a_chain_holds_a_value_until_its_reader_has_run():
    with fake_tensors():
        x = torch.empty(KIB)
        program = trace_program(lambda: ((x + 1).relu() * 2).sum())

    assert program.live_b == (4 * KIB, 8 * KIB, 8 * KIB, 4 * KIB + 4)
    assert (program.input_b, program.peak_live_b) == (4 * KIB, 8 * KIB)


def test_work_in_place_needs_no_more_memory():
    with fake_tensors():
        x = torch.empty(KIB)
        program = trace_program(lambda: (x + 1).relu_().mul_(2))

    assert program.live_b == (4 * KIB,) * 3


def test_tensors_of_shared_storage_count_once():
    shared = nn.Linear(8, 8, bias=False)
    with fake_tensors():
        network = fake_network(lambda: nn.Sequential(shared, nn.ReLU(), shared))
        x = torch.empty(4, 8)
        program = trace_program(lambda: network(x), network=network, inputs=[x, x[1:]])

    assert program.parameter_b == 8 * 8 * 4
    assert program.input_b == 4 * 8 * 4


class Cache:
    def __init__(self, *tensors):
        self.layers = [{"keys": tensor} for tensor in tensors]

    def grow(self):
        for layer in self.layers:
            layer["keys"] = torch.cat([layer["keys"], layer["keys"][:1]])


def test_a_cache_that_is_replaced_layer_by_layer_is_never_held_twice():
    rows, num_layers = 100, 10
    with fake_tensors():
        cache = Cache(*(torch.empty(rows, KIB) for _ in range(num_layers)))
        program = trace_program(cache.grow, kv=cache)

    row_b = 4 * KIB
    assert program.kv_b == program.input_b == num_layers * rows * row_b
    assert program.live_b == tuple(
        (rows + 1) * row_b + layer * row_b for layer in range(num_layers)
    )
    assert program.peak_live_b == (rows + num_layers) * row_b


def test_memory_of_real_tensors_equals_that_of_fake_ones():
    def traced():
        x = torch.zeros(KIB)
        return trace_program(lambda: ((x + 1).relu() * torch.tensor(2.0)).sum())

    real = traced()
    with fake_tensors():
        fake = traced()

    assert real.live_b == fake.live_b
    assert real.input_b == fake.input_b == 4 * KIB


def test_training_tells_gradients_and_optimizer_state_apart():
    parameter_b = 4 * (8 * 4 + 4)
    with fake_tensors():
        network = fake_network(lambda: nn.Linear(8, 4))
        x = torch.empty(3, 8)
        program = trace_training(lambda: network(x), network=network, inputs=x)

    num_steps_b = 2 * 4  # one counter for each of two parameters
    assert program.gradient_b == parameter_b
    assert program.optimizer_b == 2 * parameter_b + num_steps_b
    assert program.parameter_b == parameter_b
    assert program.input_b == 3 * 8 * 4
