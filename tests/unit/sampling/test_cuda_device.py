"""Which of a process's GPUs PyTorch works on; the two GPUs are imitated."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from joulelab.errors import DeviceNotFoundError
from joulelab.sampling.cuda_device import computing_on, uses

UUIDS = ["1111-a", "2222-b"]


class TwoGpus:
    """What PyTorch says of two GPUs, and what this process does on them."""

    def __init__(self):
        self.current, self.contexts, self.held_b = 0, set(), [0, 0]

    @contextmanager
    def device(self, index):
        before, self.current = self.current, index
        yield
        self.current = before


@pytest.fixture
def gpus(monkeypatch):
    gpus = TwoGpus()
    there = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(UUIDS),
        "get_device_properties": lambda index: SimpleNamespace(uuid=UUIDS[index]),
        "memory_reserved": lambda index: gpus.held_b[index],
        "device": gpus.device,
    }
    for name, does in there.items():
        monkeypatch.setattr(torch.cuda, name, does)
    monkeypatch.setattr(
        torch._C, "_cuda_hasPrimaryContext", gpus.contexts.__contains__, raising=False
    )
    return gpus


def test_work_goes_to_the_gpu_that_is_measured_and_later_where_it_went_before(gpus):
    with computing_on("GPU-2222-B"):
        assert gpus.current == 1

    assert gpus.current == 0


def test_a_gpu_that_pytorch_does_not_see_is_refused(gpus):
    with (
        pytest.raises(DeviceNotFoundError, match="sees 1111-a, 2222-b alone"),
        computing_on("GPU-3333-c"),
    ):
        pass


def test_a_simulated_gpu_moves_nothing(gpus):
    with computing_on("SIM-h200_sxm-1"):
        assert gpus.current == 0


@pytest.mark.parametrize(
    ("contexts", "held_b", "expected"),
    [
        (set(), [0, 0], None),
        ({1}, [0, 0], True),  # another library, in the context that it shares with PyTorch
        ({0, 1}, [0, 4096], True),
        ({0, 1}, [4096, 0], False),  # the context alone is there
    ],
)
def test_a_gpu_is_used_where_memory_is_held(gpus, contexts, held_b, expected):
    gpus.contexts.update(contexts)
    gpus.held_b = held_b

    assert uses("GPU-2222-b") is expected
