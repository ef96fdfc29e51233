"""How a network is stored and multiplied in each precision.

Floating-point precisions are PyTorch's own. int8, int4 and fp8 are made of a 16-bit network by
torchao: docs/adr/0006-quantisation.md.

Imports torch, so it is imported only by functions that run or trace a network.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from joulelab.errors import ConfigError
from joulelab.estimator.precision import is_quantised, traced_dtype

# torchao's 4-bit kernels and row-wise fp8 products take bf16 alone.
_STORAGE: Mapping[str, torch.dtype] = {"int4": torch.bfloat16, "fp8": torch.bfloat16}

_MULTIPLES: Mapping[str, tuple[int, int]] = {"int8": (8, 8), "int4": (16, 32), "fp8": (16, 16)}
"""Outputs and inputs of a layer must be multiples of these: what the kernels ask for."""


def storage_dtype(precision: str) -> torch.dtype:
    """Return the format in which a network is built that will compute in ``precision``.

    Raises:
        UnknownNameError: If there is no such precision.
    """
    dtype: torch.dtype = getattr(torch, traced_dtype(precision))
    return _STORAGE.get(precision, dtype)


def store_in(network: torch.nn.Module, precision: str) -> None:
    """Quantise the linear layers of ``network`` where they are, one after the other.

    Layers whose shape the kernels do not take, the layer that puts out a vocabulary, and
    everything that is not linear, convolutions above all, stay in 16 bits. A floating-point
    precision of PyTorch's own changes nothing. On fake tensors layers become what they are on a
    GPU.

    Raises:
        ConfigError: If ``network`` has no layer that can be stored in ``precision``.
    """
    if not is_quantised(precision):
        return
    layers = dict(quantised_layers(network, precision))
    if not layers:
        outputs, inputs = _MULTIPLES[precision]
        raise ConfigError(
            f"{precision} needs linear layers with a multiple of {inputs} inputs and of {outputs} "
            "outputs, and this network has none besides its output layer; "
            "choose fp32, fp16 or bf16."
        )
    from joulelab.workloads.quantised_layers import quantised

    for path, layer in layers.items():
        network.set_submodule(path, quantised(layer, precision))


def quantised_layers(
    network: torch.nn.Module, precision: str
) -> Iterator[tuple[str, torch.nn.Linear]]:
    """Yield the layers that are stored in ``precision``, with their paths."""
    outputs, inputs = _MULTIPLES[precision]
    kept = set(_kept_whole(network))
    for path, layer in network.named_modules():
        if type(layer) is not torch.nn.Linear or id(layer.weight) in kept:
            continue  # subclasses may hand their weights to other code
        if layer.out_features % outputs == 0 and layer.in_features % inputs == 0:
            yield path, layer


def _kept_whole(network: torch.nn.Module) -> Iterator[int]:
    """Identify embeddings, with which an output layer may share its weights, and such layers."""
    for part in network.modules():
        if isinstance(part, torch.nn.Embedding):
            yield id(part.weight)
        heads: Any = getattr(part, "get_output_embeddings", None)
        head = heads() if callable(heads) else None
        if isinstance(head, torch.nn.Linear):
            yield id(head.weight)
