"""What each operator of a network takes on the device, and in which kernels, by PyTorch's profiler.

Profiling slows the host, so that nothing that the host limits is taken from here: only how long
kernels run, within the network that they are part of.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from network_loops import Loop
from torch.profiler import ProfilerActivity, profile

_STEPS = 3
_NAME_LENGTH = 100
"""Characters of a kernel's name that are kept."""

_ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


def kernel_profile(loop: Loop) -> list[dict[str, Any]]:
    """Return one entry for each operator and shapes: seconds on the device per step, and calls.

    With each go the kernels that it launched itself: seconds and launches per step, by name.

    Args:
        loop: What is profiled, warm; three of its steps are run.
    """
    with loop.context(), profile(activities=_ACTIVITIES, record_shapes=True) as profiled:
        for _ in range(_STEPS):
            loop.step()
        torch.cuda.synchronize()
    kernels = _kernels(profiled.events())
    return [
        entry | {"kernels": kernels.get(_key(entry["operator"], entry["shapes"]), {})}
        for entry in _entries(profiled.key_averages(group_by_input_shape=True))
    ]


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


def _kernels(events: Any) -> dict[str, dict[str, list[float]]]:
    """Return seconds and launches per step of each kernel, by what launched it."""
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for event in events:
        for kernel in event.kernels:
            of_operator = found[_key(event.name.removeprefix("aten::"), event.input_shapes)]
            total = of_operator.setdefault(kernel.name[:_NAME_LENGTH], [0.0, 0.0])
            total[0] += 1e-6 * kernel.duration / _STEPS
            total[1] += 1 / _STEPS
    return found


def _key(operator: str, shapes: Any) -> str:
    return f"{operator} {[list(shape) for shape in shapes]}"
