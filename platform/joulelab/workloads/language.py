"""Language models that generate: reading a prompt (prefill) and generating (decode), and BLOOM."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from typing_extensions import override

from joulelab.core.cost import WorkloadCost
from joulelab.core.number_format import NetworkPrecision
from joulelab.core.request import Request
from joulelab.errors import ConfigError
from joulelab.workloads.knobs import check_knobs
from joulelab.workloads.network import NetworkWorkload, Programs

KvCache = Literal["dynamic", "static"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network.
        weights: Folder or hub id of a checkpoint of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and products; int8, int4 and fp8 store linear layers
            so and keep the rest in 16 bits. tf32 is stored as fp32.
        batch: Sequences computed side by side.
        prompt_tokens: Tokens of each prompt.
        context_tokens: Tokens in the cache when the decode starts, of random content that
            nothing computed; by default those of the prompt that the prefill read.
        new_tokens: Tokens that one decode generates for each prompt.
        kv_cache: dynamic grows by concatenation, as in plain transformers; static is allocated
            for the full length and written in place.
        compile: Compile the decode step, with CUDA graphs on a GPU; needs a static cache.
    """

    model: str
    weights: str | None = None
    precision: NetworkPrecision = "bf16"
    batch: int = 1
    prompt_tokens: int = 512
    context_tokens: int | None = None
    new_tokens: int = 64
    kv_cache: KvCache = "dynamic"
    compile: bool = False

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.compile and self.kv_cache != "static":
            raise ConfigError(
                "compile needs kv_cache static, got dynamic: a cache that grows would be compiled "
                "anew at every length."
            )

    @property
    def cached_tokens(self) -> int:
        """Tokens of each sequence in the cache when the decode starts."""
        return self.prompt_tokens if self.context_tokens is None else self.context_tokens

    def check_lengths(self, longest: int) -> None:
        """Refuse sequences that are longer than the network can read.

        Raises ConfigError if there are such; says by which knobs.
        """
        read = {"prompt_tokens": self.prompt_tokens}
        if self.context_tokens is not None:
            read["context_tokens"] = self.context_tokens
        for knob, tokens in read.items():
            if tokens + self.new_tokens > longest:
                raise ConfigError(
                    f"{knob} + new_tokens must be at most {longest} for {self.model}, "
                    f"got {tokens} + {self.new_tokens}."
                )


Settings = TypeVar("Settings", bound=LanguageSettings)


class LanguageWorkload(NetworkWorkload[Settings]):
    """Runs a causal language model of transformers, and counts tokens.

    A prefill counts the tokens of the prompts, a decode those that it generates. Every decode
    starts from the same cache: it is cut back to its first length, not computed anew. A subclass
    makes the network.
    """

    unit: ClassVar[str] = "token"
    phases = ("prefill", "decode")
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

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        return f"{settings.model} in {settings.precision} with batch {settings.batch}"

    @override
    def close(self) -> None:
        if self._programs and self.settings.compile:
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
    """Runs a BLOOM network of transformers, and counts tokens.

    Its attention is the library's own for BLOOM, products and a softmax with linear biases.
    """

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
