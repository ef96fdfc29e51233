"""How a network is stored: in each precision, and in a file.

Floating-point precisions are PyTorch's own. int8, int4 and fp8 are made of a 16-bit network by
torchao: docs/adr/0006-quantisation.md.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch._guards import active_fake_mode

from joulelab.core.number_format import number_format
from joulelab.errors import ConfigError

_MULTIPLES: Mapping[str, tuple[int, int]] = {"int8": (8, 8), "int4": (16, 32), "fp8": (16, 16)}
"""Outputs and inputs of a layer must be multiples of these: what the kernels ask for."""


def storage_dtype(precision: str) -> torch.dtype:
    """Return the format of a network that computes in ``precision``; UnknownNameError if none."""
    dtype: torch.dtype = getattr(torch, number_format(precision).built)
    return dtype


def store_in(network: torch.nn.Module, precision: str) -> None:
    """Quantise the linear layers of ``network`` where they are, one after the other.

    Layers whose shape the kernels do not take, the layer that puts out a vocabulary, and
    everything that is not linear, convolutions above all, stay in 16 bits. A floating-point
    precision of PyTorch's own changes nothing. On fake tensors layers become what they are on a
    GPU. Raises ConfigError if ``network`` has no layer that can be stored in ``precision``.
    """
    if not number_format(precision).is_quantised:
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


def require_file(weights: str) -> Path:
    """Return the path of the file ``weights``; ConfigError if there is none."""
    path = Path(weights).expanduser()
    if not path.is_file():
        raise ConfigError(f"weights must be a file with the network's state, got {weights!r}.")
    return path


def load_state(network: torch.nn.Module, weights: str) -> None:
    """Read the state of ``network`` from a file, unless fake; ConfigError if it is another's."""
    path = require_file(weights)
    if active_fake_mode() is not None:
        return
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError, UnpicklingError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"weights must be the state of this network, as torch.save writes state_dict(), got "
            f"{weights!r}. {reason}"
        ) from error
