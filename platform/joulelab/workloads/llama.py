"""Llama inference: reading a prompt (prefill) and generating from it (decode), measured apart.

As tensor parallel, projections into attention and feed-forward layers are cut by columns, those out
of them by rows, after which the processes of PyTorch's group sum their results; everything else
each computes whole (Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3). The estimator cuts
the same way.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.tracing.program import ALL_REDUCE
from joulelab.workloads.base import require_choice
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings

Attention = Literal["sdpa", "eager"]
_SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size"),
)

_COLUMNS = (
    *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    *("mlp.gate_proj", "mlp.up_proj"),
)
CUT_BY_ROWS = ("self_attn.o_proj", "mlp.down_proj")
"""Modules whose outputs are summed over all processes."""


def _llama(
    sizes: tuple[int, ...],
    longest: int,
    eps: float,
    rope: Mapping[str, Any] = {},
    **others: Any,
) -> Mapping[str, Any]:
    """Return a configuration of the sizes that ``_SHAPE`` names; ``rope`` says what is unusual."""
    return {
        **dict(zip(_SHAPE, sizes, strict=True)),
        "max_position_embeddings": longest,
        "rms_norm_eps": eps,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **rope},
        **others,
    }


_LLAMA_3 = {"rope_theta": 500000.0}
# config.json of Llama 3.1 and 3.2, "rope_scaling": positions stretched beyond those of Llama 3.
_LLAMA_3_2: Mapping[str, Any] = {
    "rope": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "tie_word_embeddings": True,
}

GEOMETRIES: Mapping[str, Mapping[str, Any]] = {
    # For tests and for a first try on a CPU; no published network.
    "tiny": _llama((64, 176, 2, 4, 2, 256), 2048, 1e-5),
    # config.json of TinyLlama/TinyLlama-1.1B-Chat-v1.0 (arXiv:2401.02385, table 2).
    "tinyllama": _llama((2048, 5632, 22, 32, 4, 32000), 2048, 1e-5),
    # config.json of huggyllama/llama-7b (arXiv:2302.13971, table 2).
    "llama-7b": _llama((4096, 11008, 32, 32, 32, 32000), 2048, 1e-6),
    # config.json of meta-llama/Llama-2-7b-hf and -13b-hf (arXiv:2307.09288).
    "llama-2-7b": _llama((4096, 11008, 32, 32, 32, 32000), 4096, 1e-5),
    "llama-2-13b": _llama((5120, 13824, 40, 40, 40, 32000), 4096, 1e-5),
    # config.json of meta-llama/Meta-Llama-3-8B (arXiv:2407.21783, table 3).
    "llama-3-8b": _llama((4096, 14336, 32, 32, 8, 128256), 8192, 1e-5, _LLAMA_3),
    # config.json of meta-llama/Llama-3.2-1B and -3B.
    "llama-3.2-1b": _llama((2048, 8192, 16, 32, 8, 128256), 131072, 1e-5, **_LLAMA_3_2),
    "llama-3.2-3b": _llama((3072, 8192, 28, 24, 8, 128256), 131072, 1e-5, **_LLAMA_3_2),
}
"""What to give to ``LlamaConfig`` of transformers, by name."""


def num_parameters(geometry: Mapping[str, Any]) -> int:
    """Return the weights of a network of such values, embedding and output head included."""
    width, inner, layers, heads, key_heads, vocabulary = (geometry[name] for name in _SHAPE)
    attention = 2 * width * (heads + key_heads) * (width // heads)
    norms = (2 * layers + 1) * width
    embeddings = 1 if geometry["tie_word_embeddings"] else 2
    found: int = layers * (attention + 3 * width * inner) + norms + embeddings * vocabulary * width
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings(LanguageSettings):
    """Read prompts of random tokens, then generate greedily.

    Attributes:
        model: Geometry of the network: tiny, tinyllama, llama-7b, llama-2-7b, llama-2-13b,
            llama-3-8b, llama-3.2-1b, llama-3.2-3b; or, where it has a slash, a folder (./name) or
            hub id (owner/name) whose config.json tells it.
        attention: sdpa is PyTorch's fused attention; eager is products and a softmax.
        tensor_parallel: GPUs that share the heads and features of each layer; 1, or as many as a
            trial has (--gpus-per-trial), which otherwise run a copy each.
    """

    model: str = "llama-2-7b"
    attention: Attention = "sdpa"
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        LanguageSettings.__post_init__(self)
        if not self.is_elsewhere:
            self.check_lengths(self.geometry["max_position_embeddings"])
            self.check_shares(self.geometry)

    def check_shares(self, geometry: Mapping[str, Any]) -> None:
        """Refuse GPUs that cannot share heads and features equally, by a ConfigError."""
        for name in ("intermediate_size", "num_attention_heads", "num_key_value_heads"):
            if geometry[name] % self.tensor_parallel:
                raise ConfigError(
                    f"tensor_parallel must divide {name} of {self.model}, which is "
                    f"{geometry[name]}, got {self.tensor_parallel}."
                )

    @property
    def is_elsewhere(self) -> bool:
        """Whether the geometry is that of a folder or of a hub id."""
        return "/" in str(self.model)

    @property
    def geometry(self) -> Mapping[str, Any]:
        """The shape of the network; UnknownNameError if a folder or hub id tells it."""
        require_choice("model", self.model, tuple(GEOMETRIES))
        return GEOMETRIES[self.model]


class Llama(LanguageWorkload[LlamaSettings]):
    """Runs a Llama network of transformers, and counts tokens."""

    settings_type: ClassVar = LlamaSettings

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub

        network = hub.network_of(
            transformers.AutoModelForCausalLM,
            self._config(),
            self.settings,
            device,
            shape=_SHAPE,
            attn_implementation=self.settings.attention,
        )
        if self.settings.tensor_parallel > 1:
            _share(network, self.settings.tensor_parallel)
        return network

    @override
    def cost(self) -> WorkloadCost:
        cost = super().cost()
        if self.settings.tensor_parallel == 1:
            return cost
        return replace(cost, phases=tuple(map(self._with_sums, cost.phases)))

    def _with_sums(self, phase: PhaseCost) -> PhaseCost:
        """Add what the GPUs send each other: the outputs of attention and of feed-forward."""
        from joulelab.workloads import formats

        settings, config = self.settings, self._config()
        is_read = phase.phase == "prefill"
        tokens, passes = (settings.prompt_tokens, 1) if is_read else (1, settings.new_tokens)
        dtype = formats.storage_dtype(settings.precision)
        written_b = float(settings.batch * tokens * config.hidden_size * dtype.itemsize)
        summed = KernelCost(
            name=ALL_REDUCE,
            pipe="fp32",
            flop=0.0,
            dram_b=2 * written_b,
            written_b=written_b,
            count=2 * config.num_hidden_layers * passes,
            dtype=str(dtype).removeprefix("torch."),
        )
        return replace(
            phase, kernels=(*phase.kernels, summed), num_devices=settings.tensor_parallel
        )

    def _config(self) -> Any:
        """Return the configuration in transformers; ConfigError if no Llama, or too short."""
        import transformers

        from joulelab.workloads import hub

        settings = self.settings
        if not settings.is_elsewhere:
            return transformers.LlamaConfig(**settings.geometry)
        config = hub.published_config(settings.model)
        if config.model_type != "llama":
            raise ConfigError(
                f"model must be a Llama network, but {settings.model!r} is a {config.model_type}."
            )
        settings.check_lengths(config.max_position_embeddings)
        settings.check_shares({name: getattr(config, name) for name in _SHAPE})
        return config


def _share(network: Any, num_ranks: int) -> None:
    """Keep what this process, one of ``num_ranks``, computes; ConfigError if in no such group."""
    import torch
    from torch import distributed
    from torch._guards import active_fake_mode

    from joulelab.workloads.sums import Sums

    network.sums = sums = Sums()

    def summed(_module: Any, _arguments: Any, output: Any) -> Any:
        if distributed.is_initialized():
            with nullcontext() if torch.compiler.is_compiling() else sums.timed():
                distributed.all_reduce(output)
        return output

    if active_fake_mode() is not None:
        rank, given = 0, num_ranks
    else:
        is_group = distributed.is_initialized()
        rank = distributed.get_rank() if is_group else 0
        given = distributed.get_world_size() if is_group else 1
    if given != num_ranks:
        raise ConfigError(
            f"tensor_parallel {num_ranks} takes a group of {num_ranks} processes, each on a GPU of "
            f"its own, but here are {given}; ask for --gpus-per-trial {num_ranks}."
        )
    for layer in network.model.layers:
        for name in _COLUMNS:
            _cut(layer.get_submodule(name), 0, rank, num_ranks)
        for name in CUT_BY_ROWS:
            part = layer.get_submodule(name)
            _cut(part, 1, rank, num_ranks)
            part.register_forward_hook(summed)


def _cut(linear: Any, dim: int, rank: int, num_ranks: int) -> None:
    import torch

    with torch.no_grad():
        own = linear.weight.chunk(num_ranks, dim)[rank].clone()
    linear.weight = torch.nn.Parameter(own, requires_grad=linear.weight.requires_grad)
    linear.out_features, linear.in_features = own.shape
