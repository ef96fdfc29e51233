"""BLOOM inference: reading a prompt (prefill) and generating from it (decode), measured apart."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

Model = Literal["tiny", "bloom-560m", "bloom-1b1", "bloom-1b7", "bloom-3b", "bloom-7b1"]

# (hidden_size, n_layer, n_head) of config.json of bigscience/bloom-* (arXiv:2211.05100, table 3);
# everything else is the default of transformers. tiny is for tests and no published network.
GEOMETRIES: dict[str, tuple[int, int, int]] = {
    "tiny": (32, 2, 4),
    "bloom-560m": (1024, 24, 16),
    "bloom-1b1": (1536, 24, 16),
    "bloom-1b7": (2048, 24, 16),
    "bloom-3b": (2560, 30, 32),
    "bloom-7b1": (4096, 30, 32),
}
_TINY_VOCABULARY = 256
_SHAPE = ("hidden_size", "n_layer", "n_head", "vocab_size")
_LONGEST = 2048  # sequence length of the training (arXiv:2211.05100, table 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomSettings(LanguageSettings):
    """Read prompts of random tokens, then generate greedily, with BLOOM.

    Attributes:
        model: Geometry of the network.
    """

    model: Model = "bloom-560m"

    def __post_init__(self) -> None:
        require_choice("model", self.model, get_args(Model))
        LanguageSettings.__post_init__(self)
        self.check_lengths(_LONGEST)


class Bloom(LanguageWorkload[BloomSettings]):
    """Runs a BLOOM network of transformers, and counts tokens.

    Its attention is the library's own for BLOOM, products and a softmax with linear biases.
    """

    settings_type: ClassVar = BloomSettings

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub
        from joulelab.workloads.formats import storage_dtype

        settings = self.settings
        hidden_size, n_layer, n_head = GEOMETRIES[settings.model]
        sizes: dict[str, Any] = {"vocab_size": _TINY_VOCABULARY} if settings.model == "tiny" else {}
        config = transformers.BloomConfig(
            hidden_size=hidden_size, n_layer=n_layer, n_head=n_head, **sizes
        )
        if settings.weights is not None:
            hub.require_geometry(config, settings.weights, _SHAPE)
        dtype = storage_dtype(settings.precision)
        return hub.network_of(
            transformers.AutoModelForCausalLM, config, settings.weights, dtype, device
        )
