"""Weights in a file of PyTorch.

Imports torch, so it is imported only by functions that run or trace a network.
"""

from pathlib import Path
from pickle import UnpicklingError

import torch
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError


def require_file(weights: str) -> Path:
    """Return the path of the file ``weights``.

    Raises:
        ConfigError: If there is none.
    """
    path = Path(weights).expanduser()
    if not path.is_file():
        raise ConfigError(f"weights must be a file with the network's state, got {weights!r}.")
    return path


def load_state(network: torch.nn.Module, weights: str) -> None:
    """Read the state of ``network`` from a file; on tensors without memory nothing is read.

    Raises:
        ConfigError: If the file cannot be read, or holds the state of another network.
    """
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
