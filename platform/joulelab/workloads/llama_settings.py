"""The knobs of Llama inference."""

from dataclasses import dataclass
from typing import Literal, get_args

from joulelab.workloads.knobs import require_choice
from joulelab.workloads.language_settings import LanguageSettings
from joulelab.workloads.llama_geometry import GEOMETRIES, LlamaGeometry

Attention = Literal["sdpa", "eager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings(LanguageSettings):
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network: tiny, tinyllama, llama-7b, llama-2-7b, llama-2-13b,
            llama-3-8b, llama-3.2-1b, llama-3.2-3b; or, where it has a slash, a folder (./name) or
            hub id (owner/name) whose config.json tells it.
        attention: sdpa is PyTorch's fused attention; eager is products and a softmax.
    """

    model: str = "llama-2-7b"
    attention: Attention = "sdpa"

    def __post_init__(self) -> None:
        if not self.is_elsewhere:
            require_choice("model", self.model, tuple(GEOMETRIES))
        LanguageSettings.__post_init__(self)
        require_choice("attention", self.attention, get_args(Attention))
        if not self.is_elsewhere:
            self.check_lengths(self.geometry.max_position_embeddings)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the geometry is that of a folder or of a hub id."""
        return "/" in str(self.model)

    @property
    def geometry(self) -> LlamaGeometry:
        """The shape of the network.

        Raises:
            UnknownNameError: If it is that of a folder or of a hub id, which tells it.
        """
        require_choice("model", self.model, tuple(GEOMETRIES))
        return GEOMETRIES[self.model]
