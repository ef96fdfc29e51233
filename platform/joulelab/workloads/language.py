"""Language models that generate: reading a prompt (prefill) and generating (decode), and BLOOM."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from typing_extensions import override

from joulelab.core.cost import Request, WorkloadCost
from joulelab.workloads.language_settings import LanguageSettings
from joulelab.workloads.network import NetworkWorkload, Programs

BloomModel = Literal["tiny", "bloom-560m", "bloom-1b1", "bloom-1b7", "bloom-3b", "bloom-7b1"]

# (hidden_size, n_layer, n_head) of config.json of bigscience/bloom-* (arXiv:2211.05100, table 3);
# everything else is the default of transformers. tiny is for tests and no published network.
BLOOM_GEOMETRIES: dict[str, tuple[int, int, int]] = {
    "tiny": (32, 2, 4),
    "bloom-560m": (1024, 24, 16),
    "bloom-1b1": (1536, 24, 16),
    "bloom-1b7": (2048, 24, 16),
    "bloom-3b": (2560, 30, 32),
    "bloom-7b1": (4096, 30, 32),
}
_BLOOM_SHAPE = ("hidden_size", "n_layer", "n_head")
_TINY_VOCABULARY = 256
_LONGEST_BLOOM = 2048  # sequence length of the training (arXiv:2211.05100, table 3)


Settings = TypeVar("Settings", bound=LanguageSettings)


class LanguageWorkload(NetworkWorkload[Settings]):
    """Runs a causal language model of transformers, and counts tokens.

    A prefill counts the tokens of the prompts, a decode those that it generates. Every decode
    starts from the same cache: it is cut back to its first length, not computed anew. A subclass
    makes the network.
    """

    unit: ClassVar[str] = "token"
    phases = ("prefill", "decode")
    called: ClassVar[str] = "{model}"
    input_knobs: ClassVar[frozenset[str]] = frozenset(
        {"batch", "prompt_tokens", "new_tokens", "context_tokens", "kv_cache"}
    )

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.generation import Generation

        generation = Generation(network, self.settings)
        return {"prefill": generation.prefill, "decode": generation.decode}

    @property
    @override
    def is_network_kept(self) -> bool:
        return not self.settings.compile  # its graphs are freed with it

    @override
    def work(self, phase: str) -> float:
        tokens = self.settings.prompt_tokens if phase == "prefill" else self.settings.new_tokens
        return float(self.settings.batch * tokens)

    @property
    @override
    def request(self) -> Request:
        """Prompts that are read, and tokens generated for each; both count."""
        units = {phase: self.work(phase) for phase in self.phases}
        return Request(
            units=units, size=sum(units.values()), num_generated=self.settings.new_tokens
        )

    @override
    def close(self) -> None:
        if self.prepared_programs and self.settings.compile:
            import torch

            torch.compiler.reset()  # frees the graphs
        super().close()

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.workloads.generation import traced_cost

        return traced_cost(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomSettings(LanguageSettings):
    """Read prompts of random tokens, then generate greedily, with BLOOM.

    Attributes:
        model: Geometry of the network.
    """

    model: BloomModel = "bloom-560m"

    def __post_init__(self) -> None:
        LanguageSettings.__post_init__(self)
        self.check_lengths(_LONGEST_BLOOM)


class Bloom(LanguageWorkload[BloomSettings]):
    """Runs a BLOOM network of transformers, with attention of its own, and counts tokens."""

    settings_type: ClassVar = BloomSettings

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub

        settings = self.settings
        sizes = BLOOM_GEOMETRIES[settings.model]
        values: dict[str, Any] = dict(zip(_BLOOM_SHAPE, sizes, strict=True))
        if settings.model == "tiny":
            values["vocab_size"] = _TINY_VOCABULARY
        config = transformers.BloomConfig(**values)
        shape = (*_BLOOM_SHAPE, "vocab_size")
        auto = transformers.AutoModelForCausalLM
        return hub.network_of(auto, config, settings, device, shape=shape)
