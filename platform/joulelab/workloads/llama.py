"""Llama inference: reading a prompt (prefill) and generating from it (decode), measured apart."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.knobs import require_choice
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

# config.json of Llama 3.1 and 3.2, "rope_scaling".
_LLAMA_3_ROPE = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
Attention = Literal["sdpa", "eager"]
_SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaGeometry:
    """The shape of a Llama network; field names are those of a checkpoint's ``config.json``.

    ``rope_theta`` is the base of the rotary position embedding. ``rope_factor`` says how far Llama
    3.1 and its successors stretch that embedding beyond the ``original_max_position_embeddings`` of
    Llama 3; ``None`` leaves it as it is.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float = 10000.0
    rope_factor: float | None = None
    tie_word_embeddings: bool = False

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def num_parameters(self) -> int:
        """Weights of the network, embedding and output head included."""
        heads = self.num_attention_heads + self.num_key_value_heads
        attention = 2 * self.hidden_size * heads * self.head_dim
        feed_forward = 3 * self.hidden_size * self.intermediate_size
        norms = 2 * self.hidden_size
        layers = self.num_hidden_layers * (attention + feed_forward + norms)
        embeddings = 1 if self.tie_word_embeddings else 2
        return layers + embeddings * self.vocab_size * self.hidden_size + self.hidden_size

    @property
    def config_values(self) -> Mapping[str, Any]:
        """The values of its configuration in transformers."""
        values = asdict(self)
        rope = {"rope_type": "default", "rope_theta": values.pop("rope_theta")}
        factor = values.pop("rope_factor")
        if factor is not None:
            rope |= {"rope_type": "llama3", "factor": factor, **_LLAMA_3_ROPE}
        return {**values, "rope_parameters": rope}


def _geometry(sizes: tuple[int, ...], longest: int, eps: float, **others: Any) -> LlamaGeometry:
    """Return a shape of the sizes that ``_SHAPE`` names."""
    named: dict[str, Any] = dict(zip(_SHAPE, sizes, strict=True))
    return LlamaGeometry(**named, max_position_embeddings=longest, rms_norm_eps=eps, **others)


_LLAMA_3_2: dict[str, Any] = {
    "rope_theta": 500000.0,
    "rope_factor": 32.0,
    "tie_word_embeddings": True,
}

GEOMETRIES: dict[str, LlamaGeometry] = {
    # For tests and for a first try on a CPU; no published network.
    "tiny": _geometry((64, 176, 2, 4, 2, 256), 2048, 1e-5),
    # config.json of TinyLlama/TinyLlama-1.1B-Chat-v1.0 (arXiv:2401.02385, table 2).
    "tinyllama": _geometry((2048, 5632, 22, 32, 4, 32000), 2048, 1e-5),
    # config.json of huggyllama/llama-7b (arXiv:2302.13971, table 2).
    "llama-7b": _geometry((4096, 11008, 32, 32, 32, 32000), 2048, 1e-6),
    # config.json of meta-llama/Llama-2-7b-hf and -13b-hf (arXiv:2307.09288).
    "llama-2-7b": _geometry((4096, 11008, 32, 32, 32, 32000), 4096, 1e-5),
    "llama-2-13b": _geometry((5120, 13824, 40, 40, 40, 32000), 4096, 1e-5),
    # config.json of meta-llama/Meta-Llama-3-8B (arXiv:2407.21783, table 3).
    "llama-3-8b": _geometry((4096, 14336, 32, 32, 8, 128256), 8192, 1e-5, rope_theta=500000.0),
    # config.json of meta-llama/Llama-3.2-1B and -3B.
    "llama-3.2-1b": _geometry((2048, 8192, 16, 32, 8, 128256), 131072, 1e-5, **_LLAMA_3_2),
    "llama-3.2-3b": _geometry((3072, 8192, 28, 24, 8, 128256), 131072, 1e-5, **_LLAMA_3_2),
}


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
        LanguageSettings.__post_init__(self)
        if not self.is_elsewhere:
            self.check_lengths(self.geometry.max_position_embeddings)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the geometry is that of a folder or of a hub id."""
        return "/" in str(self.model)

    @property
    def geometry(self) -> LlamaGeometry:
        """The shape of the network.

        Raises UnknownNameError if it is that of a folder or of a hub id, which tells it.
        """
        require_choice("model", self.model, tuple(GEOMETRIES))
        return GEOMETRIES[self.model]


class Llama(LanguageWorkload[LlamaSettings]):
    """Runs a Llama network of transformers, and counts tokens."""

    settings_type: ClassVar = LlamaSettings

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub

        return hub.network_of(
            transformers.AutoModelForCausalLM,
            self._config(),
            self.settings,
            device,
            shape=_SHAPE,
            attn_implementation=self.settings.attention,
        )

    def _config(self) -> Any:
        """Return the configuration in transformers, published or from elsewhere.

        Raises ConfigError if it cannot be read, is no Llama, or cannot read sequences so long.
        """
        import transformers

        from joulelab.workloads import hub

        settings = self.settings
        if not settings.is_elsewhere:
            return transformers.LlamaConfig(**settings.geometry.config_values)
        config = hub.published_config(settings.model)
        if config.model_type != "llama":
            raise ConfigError(
                f"model must be a Llama network, but {settings.model!r} is a {config.model_type}."
            )
        settings.check_lengths(config.max_position_embeddings)
        return config
