"""What each operator of a network takes on the device, by PyTorch's profiler.

Profiling slows the host, so that nothing that the host limits is taken from here: only how long
kernels run, within the network that they are part of.
"""

from collections.abc import Iterator
from typing import Any

import torch
from network_loops import Loop
from torch.profiler import ProfilerActivity, profile

_STEPS = 3
_ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


def kernel_profile(loop: Loop) -> list[dict[str, Any]]:
    """Return one entry for each operator and shapes: seconds on the device per step, and calls.

    Args:
        loop: What is profiled, warm; three of its steps are run.
    """
    with loop.context(), profile(activities=_ACTIVITIES, record_shapes=True) as profiled:
        for _ in range(_STEPS):
            loop.step()
        torch.cuda.synchronize()
    return list(_entries(profiled.key_averages(group_by_input_shape=True)))


def _entries(events: Any) -> Iterator[dict[str, Any]]:
    for event in events:
        is_operator = event.device_type == torch.autograd.DeviceType.CPU
        if is_operator and event.self_device_time_total > 0:
            yield {
                "operator": event.key.removeprefix("aten::"),
                "shapes": [list(shape) for shape in event.input_shapes],
                "device_s": 1e-6 * event.self_device_time_total / _STEPS,
                "calls": event.count / _STEPS,
            }
