"""When kernels start: a host that launches them one by one, or a queue that is already full."""

import numpy as np
from numpy.typing import NDArray

from joulelab.estimator.estimate import Mode
from joulelab.estimator.graph.table import WorkTable
from joulelab.hardware.processor import Processor

Array = NDArray[np.float64]


def mode_on(processor: Processor, mode: Mode) -> Mode:
    """Return how ``processor`` launches when asked for ``mode``: TPUs and KPUs always compile."""
    return "compiled" if processor.family in ("tpu", "kpu") else mode


def launch_s(table: WorkTable, processor: Processor, mode: Mode) -> Array:
    """Return the launch time of each distinct group: of the host, or between kernels."""
    timing = processor.timing
    if mode_on(processor, mode) != "eager":
        return np.full(table.num_rows, timing.graph_launch_s)
    return np.array([timing.launch_s(table.operators[row].kind) for row in table.main])


def elapsed_s(device_s: Array, launch_s: Array, *, queued: bool) -> Array:
    """Return the share of each kernel in the time from the first launch to the last end.

    With a queue, kernel i starts when the host has launched it and the one before has ended:
    ``end_i = max(host_i, end_{i-1}) + t_i``, solved by a running maximum. Without one, every
    kernel waits for its own launch.

    Args:
        device_s: Times on the device in order, along the last axis.
        launch_s: Launch times in order.
        queued: Whether the host runs ahead of the device.
    """
    if not queued:
        return device_s + launch_s
    before_s = np.cumsum(device_s, axis=-1) - device_s
    start_s = np.maximum.accumulate(np.cumsum(launch_s, axis=-1) - before_s, axis=-1)
    end_s = start_s + before_s + device_s
    return np.diff(end_s, axis=-1, prepend=0.0)


def is_queued(processor: Processor, mode: Mode) -> bool:
    """Return whether the host launches ahead of the device: eager programs on GPUs."""
    return processor.family == "gpu" and mode == "eager"
