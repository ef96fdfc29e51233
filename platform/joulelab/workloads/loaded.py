"""A workload's network alone, to ask for its outputs.

Imports torch, so it is imported only by functions that run a network.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from joulelab.workloads import accelerator, formats
from joulelab.workloads.network import NetworkWorkload

_SEED = 0
_DRAWN_IN = "fp32"

Build = Callable[[Any, torch.device], Any]
"""Makes the network of a workload on a device."""


def built_as_measured(workload: NetworkWorkload[Any], device: torch.device) -> Any:
    """Build the network of ``workload`` as it is built to be measured."""
    return workload.load(device)[0]


@contextmanager
def loaded(workload: NetworkWorkload[Any], build: Build = built_as_measured) -> Generator[Any]:
    """Hold the network of ``workload``, in its precision, on the device of this process.

    Random weights are the same in every precision: they are drawn in single precision and
    rounded, so that what the outputs of two precisions differ in comes from the precisions.

    Args:
        workload: The workload; it need not be prepared.
        build: Makes the network of a workload on a device.

    Raises:
        ConfigError: If the device lacks the precision, or weights cannot be read.
        DeviceError: If the device has too little memory.
    """
    precision = workload.settings.precision
    device = accelerator.select_device()
    accelerator.require_precision(precision, device)
    try:
        with accelerator.memory_errors(workload.title):
            network = _built(workload, build, device)
            if formats.storage_dtype(precision) != formats.storage_dtype(_DRAWN_IN):
                _round_random_weights(network, workload, build, device)
            formats.store_in(network, precision)
            yield network
    finally:
        network = None
        accelerator.release_memory()


def _round_random_weights(
    network: Any, workload: NetworkWorkload[Any], build: Build, device: torch.device
) -> None:
    if getattr(workload.settings, "weights", None) is not None:
        return
    exact = type(workload)(replace(workload.settings, precision=_DRAWN_IN))
    network.load_state_dict(_built(exact, build, device).state_dict())


def _built(workload: NetworkWorkload[Any], build: Build, device: torch.device) -> Any:
    with accelerator.seeded(_SEED, device):
        return build(workload, device)
