import pytest
from fake_gpu import LOAD_W, FakeGpu

from joulelab.monitor import Monitor


@pytest.fixture
def gpu():
    gpu = FakeGpu()
    gpu.set_level_w(LOAD_W)
    return gpu


@pytest.fixture
def monitor(gpu):
    with Monitor(devices=[gpu]) as monitor:
        gpu.clock.sleep_s(5.0)
        yield monitor
