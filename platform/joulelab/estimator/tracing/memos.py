"""Keep what transformers remembers from one network to the next away from tensors without memory.

Some of its networks, RT-DETR among them, compute positions once per process and size
(``compile_compatible_method_lru_cache`` in ``transformers/pytorch_utils.py``). What a trace left
there would reach a network that runs, and a trace would miss what another network computed.
"""

from contextlib import AbstractContextManager

from joulelab.estimator.tracing.replacing import replaced
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision


def nothing_remembered() -> AbstractContextManager[None]:
    """Let networks compute everything anew in a ``with`` block, as they do while compiled."""
    ensure_torchvision()  # transformers imports it
    from transformers import pytorch_utils

    return replaced(pytorch_utils, "is_torchdynamo_compiling", lambda: True)
