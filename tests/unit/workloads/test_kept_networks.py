"""Networks of other settings stay on a GPU, as far as there is memory for them."""

import pytest

from joulelab.errors import DeviceError
from joulelab.workloads import accelerator
from joulelab.workloads.kept_networks import KeptNetworks


class Memory:
    """A GPU of so many bytes, a tenth of which is to stay free."""

    def __init__(self, monkeypatch, size_b=100):
        self.size_b, self.used_b = size_b, 0
        monkeypatch.setattr(accelerator, "allocated_b", lambda device: self.used_b)
        monkeypatch.setattr(accelerator, "is_short", lambda device: self.used_b > 0.9 * size_b)
        monkeypatch.setattr(accelerator, "release_memory", self.release)

    def hold(self, size_b):
        if self.used_b + size_b > self.size_b:
            raise DeviceError("too small")
        self.used_b += size_b
        return object()

    def release(self):
        self.used_b = 0  # what alone is to stay is taken anew


@pytest.fixture
def memory(monkeypatch):
    return Memory(monkeypatch)


@pytest.fixture
def kept(memory):
    kept = KeptNetworks()
    kept.build("fp32", lambda: memory.hold(40), None)
    return kept


def prepare(kept, memory, size_b):
    kept.prepare("fp16", lambda: kept.build("fp16", lambda: memory.hold(size_b), None), None)


def test_what_others_take_is_known(kept, memory):
    prepare(kept, memory, 20)

    assert kept.size_b(but="fp16") == 40
    assert kept.size_b(but="fp32") == 20
    assert kept.of("fp32") is not None


@pytest.mark.parametrize("size_b", [70, 55])  # too large beside the other, and with little left
def test_others_make_room_where_memory_is_short(kept, memory, size_b):
    prepare(kept, memory, size_b)

    assert kept.of("fp32") is None
    assert kept.of("fp16") is not None
    assert kept.size_b(but="fp16") == 0


def test_what_does_not_fit_alone_is_refused(kept, memory):
    with pytest.raises(DeviceError, match="too small"):
        prepare(kept, memory, 101)
