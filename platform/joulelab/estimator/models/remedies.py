"""Changes of a network that save memory: blocks computed again, activations in place.

Imports torch, so it is imported only by functions that trace a model.
"""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from joulelab.registry import unknown_name

_LEAST_BLOCKS = 3


def changed(network: torch.nn.Module, remedy: str) -> torch.nn.Module:
    """Return ``network`` with the change of that name; it is changed itself.

    Raises UnknownNameError if there is no such change.
    """
    if remedy not in REMEDIES:
        raise unknown_name("remedy", remedy, REMEDIES)
    REMEDIES[remedy](network)
    return network


def _checkpointed(network: torch.nn.Module) -> None:
    """Have the blocks of each outermost list keep their inputs alone for the backward pass."""
    for block in _blocks(network):
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False
        )


def _blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    children = list(module.children())
    kinds = {type(child) for child in children}
    is_list = isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)
    if (
        is_list
        and len(kinds) == 1
        and len(children) >= _LEAST_BLOCKS
        and any(children[0].children())
    ):
        return children
    return [block for child in children for block in _blocks(child)]


def _in_place(network: torch.nn.Module) -> None:
    for module in network.modules():
        if "inplace" in vars(module):
            vars(module)["inplace"] = True


REMEDIES = {"checkpointed": _checkpointed, "in-place": _in_place}
"""What is done to the network, by name."""
