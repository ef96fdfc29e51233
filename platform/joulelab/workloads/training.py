"""Small networks that are trained on this machine when they are first needed, then kept.

Training runs on one CPU thread with fixed seeds, so that it gives the same network whichever GPU
is there and however many cores. The state is kept under a digest of all that it depends on.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors import torch as file_format
from torch._guards import active_fake_mode

from joulelab.workloads.disk_cache import (
    Form,
    digest,
    made_once,
    package_versions,
    source_digests,
    user_folder,
)
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.network import NetworkSettings

_PACKAGES = ("diffusers", "scikit-learn", "torch", "transformers")
_SEED = 0
_LOG_EVERY = 100

State = dict[str, torch.Tensor]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a network is trained."""

    name: str  # what the network is, for files and messages
    # Makes the network, in a format and on a device.
    build: Callable[[torch.dtype, torch.device], torch.nn.Module]
    # Takes the network and draws a batch with the generator; returns the mean loss.
    loss: Callable[[torch.nn.Module, torch.Generator], torch.Tensor]
    num_steps: int  # steps of AdamW
    peak_rate: float  # its largest learning rate, reached a third of the way, from which it falls
    sources: Sequence[str]  # files of this package that define network and data, as patterns

    @property
    def digest(self) -> str:
        """Digest of all that the trained state depends on."""
        return digest(
            {
                "recipe": [self.name, self.num_steps, self.peak_rate],
                "sources": source_digests(("workloads/training.py", *self.sources)),
                "versions": package_versions(_PACKAGES),
            }
        )


def load(recipe: Recipe, settings: NetworkSettings, device: torch.device) -> torch.nn.Module:
    """Return the network on ``device``, trained unless ``settings`` ask for random weights."""
    network = recipe.build(storage_dtype(settings.precision), device)
    network.train(mode=False)
    if settings.weights is not None:
        load_trained(network, recipe)
    return network


def load_trained(network: torch.nn.Module, recipe: Recipe) -> None:
    """Give ``network`` the trained state, in its own format; nothing on tensors without memory."""
    if active_fake_mode() is None:
        network.load_state_dict(trained_state(recipe))


def trained_state(recipe: Recipe, folder: Path | None = None) -> State:
    """Return the state of the trained network, from disk if it was trained before.

    States are kept in the user's cache folder (``$XDG_CACHE_HOME/joulelab/trained``,
    ``~/.cache/joulelab/trained`` if unset) unless ``folder`` is given.
    """
    path = (folder or user_folder("trained")) / f"{recipe.name}-{recipe.digest}.safetensors"
    return made_once(path, lambda: train(recipe), _STATE)


def train(recipe: Recipe) -> State:
    """Train the network and return its state."""
    _logger.info("Training %s, once; the result is kept.", recipe.name)
    with _reproducible():
        network = recipe.build(torch.float32, torch.device("cpu"))
        network.train()
        rate = recipe.peak_rate
        optimizer = torch.optim.AdamW(network.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, rate, total_steps=recipe.num_steps
        )
        generator = torch.Generator().manual_seed(_SEED)
        for step in range(recipe.num_steps):
            loss = recipe.loss(network, generator)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            if step % _LOG_EVERY == 0:
                _logger.debug("%s: step %d, loss %.4f", recipe.name, step, loss.item())
        return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


@contextmanager
def _reproducible() -> Generator[None]:
    """Compute on one CPU thread with gradients, random numbers from the seed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.device("cpu"),
            torch.inference_mode(mode=False),
            torch.enable_grad(),
        ):
            torch.manual_seed(_SEED)
            yield
    finally:
        torch.set_num_threads(threads)


def _decoded(content: bytes) -> State:
    try:
        return file_format.load(content)
    except SafetensorError as error:
        raise ValueError(f"not a network's state: {error}") from error


_STATE = Form(what="a network", encode=file_format.save, decode=_decoded)
