"""Which GPU a command takes that is for one."""

import pytest

from joulelab.cli import options
from joulelab.core.device import DeviceAddress

FIRST, SECOND = (DeviceAddress(backend="nvml", uuid=f"GPU-{name}") for name in "ab")


@pytest.mark.parametrize(
    ("visible", "uuid", "chosen"),
    [
        (None, None, FIRST),
        ("1", None, SECOND),
        ("GPU-b", None, SECOND),
        ("1", "GPU-a", FIRST),  # it is asked for
        ("", None, FIRST),  # of a server, which sees more
    ],
)
def test_the_first_gpu_that_is_visible_is_taken(monkeypatch, visible, uuid, chosen):
    """PyTorch refused the machine's first one, where another was visible."""
    monkeypatch.setattr(options, "_discover", lambda *_: [FIRST, SECOND])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert options.choose_address("nvml", uuid=uuid) == chosen
