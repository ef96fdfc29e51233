"""Greedy generation with a causal language model of transformers, and what it costs.

The cost is traced from the very network that would run. A compiled step launches the kernels that
fusing leaves of an eager one, all in one CUDA graph.
"""

from dataclasses import replace
from typing import Any

import torch
from torch._guards import active_fake_mode

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.tracing.fusion import Traffic, fused, traffic
from joulelab.tracing.kernels import kernel_of, kernels_of, merged
from joulelab.tracing.operators import dense_parts
from joulelab.tracing.program import Program, main_operator
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_tensors, trace
from joulelab.workloads import formats
from joulelab.workloads.language_settings import LanguageSettings
from joulelab.workloads.network import NetworkWorkload
from joulelab.workloads.network_cost import Kernels, trace_counted, traced_steps

ensure_torchvision()  # transformers imports it

from transformers import Cache, DynamicCache, PreTrainedModel, StaticCache  # noqa: E402
from transformers.cache_utils import StaticLayer  # noqa: E402

_SEED = 0  # of the prompts
_COMPILER: dict[str, Any] = {
    "backend": "inductor",
    "mode": "reduce-overhead",
}  # the latter: CUDA graphs


class Generation:
    """Greedy generation from random prompts of equal length, on a key-value cache.

    No step waits for the device: each next token stays on it. Steps are never compiled on tensors
    without memory.
    """

    def __init__(self, network: PreTrainedModel, settings: LanguageSettings) -> None:
        self.network = network
        """The network that generates."""
        self._read: Any = network
        if settings.compile and active_fake_mode() is None:
            self._read = torch.compile(network, fullgraph=True, **_COMPILER)
        self._settings = settings
        self.cache: Cache = self._new_cache(settings.cached_tokens)
        """Keys and values of the tokens read so far; with a context of its own, the decode's."""
        device = network.device
        self._random = torch.Generator(device).manual_seed(_SEED)
        self.prompt = torch.randint(
            network.config.vocab_size,
            (settings.batch, settings.prompt_tokens),
            generator=self._random,
            device=device,
        )
        """Token ids of the prompts, shape (batch, prompt_tokens)."""
        self.tokens = torch.zeros(
            settings.batch, 1 + settings.new_tokens, dtype=torch.long, device=device
        )
        """Generated token ids: that of the prefill, then those of the decode."""

    @property
    def cached_b_per_token(self) -> int:
        """Bytes that the cache holds for one token of one sequence, once it holds any."""
        return sum(
            held.shape[1] * held.shape[3] * held.element_size()
            for layer in self._layers
            for held in (layer.keys, layer.values)
        )

    def prefill(self) -> None:
        """Read the prompts into an empty cache and generate the first token of each."""
        if self._settings.context_tokens is not None:
            cache = self._new_cache(self._settings.prompt_tokens)
        elif self._settings.compile:  # compiled code wants its cache at one address
            self._cut(0)
            cache = self.cache
        else:  # frees the old one first: there is room for one
            cache = self.cache = self._new_cache(self._settings.prompt_tokens)
        self._generate(self.network, self.prompt, cache, into=0)

    def decode(self) -> None:
        """Generate the tokens after the first, one at a time, from the cache as it starts."""
        self.rewind()
        for index in range(self._settings.new_tokens):
            self.step(index)

    def step(self, index: int) -> None:
        """Read the generated token ``index`` and generate the next."""
        self._generate(self._read, self.tokens[:, index : index + 1], self.cache, into=index + 1)

    def rewind(self) -> None:
        """Make the cache what the decode starts from: cut it back, or fill it with a context."""
        is_filled = any(layer.is_initialized for layer in self._layers)
        if self._settings.context_tokens is not None and not is_filled:
            self._forward(self.network, self.prompt[:, :1], self.cache)  # shapes the cache
            self.lengthen(self._settings.context_tokens - 1)
        self._cut(self._settings.cached_tokens)

    def lengthen(self, num_tokens: int) -> None:
        """Append ``num_tokens`` tokens of random content to the cache, without computing them."""
        for index, layer in enumerate(self._layers):
            keys, values = (
                torch.randn(
                    (*held.shape[:2], num_tokens, held.shape[3]),
                    generator=self._random,
                    dtype=held.dtype,
                    device=held.device,
                )
                for held in (layer.keys, layer.values)
            )
            self.cache.update(keys, values, index)

    @property
    def _layers(self) -> list[Any]:  # some kinds of layers hold no keys; those made here do
        return self.cache.layers

    def _new_cache(self, first_tokens: int) -> Cache:
        config = self.network.config
        if self._settings.kv_cache == "static":
            length = first_tokens + self._settings.new_tokens
            return StaticCache(config=config, max_cache_len=length)
        return DynamicCache(config=config)

    def _cut(self, num_tokens: int) -> None:
        for layer in self._layers:
            if isinstance(layer, StaticLayer):
                layer.cumulative_length.fill_(num_tokens)
        if isinstance(self.cache, DynamicCache):
            self.cache.crop(num_tokens - self.cache.get_seq_length())

    def _generate(self, network: Any, token_ids: torch.Tensor, cache: Cache, *, into: int) -> None:
        output = self._forward(network, token_ids, cache)
        chosen = self.tokens[:, into : into + 1]
        torch.argmax(output.logits[:, -1], dim=-1, keepdim=True, out=chosen)

    def _forward(self, network: Any, token_ids: torch.Tensor, cache: Cache) -> Any:
        return network(input_ids=token_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)


def traced_cost(workload: NetworkWorkload[Any]) -> WorkloadCost:
    """Return the costs of a prefill and a decode, and the bytes of weights and longest cache."""
    settings = workload.settings
    with fake_tensors():
        network = workload.network(torch.device("cpu"))
        generation = Generation(network, settings)
        formats.store_in(network, settings.precision)
        weights_b = float(_weights_b(network))
        tf32 = settings.precision == "tf32"
        options: dict[str, Any] = {"network": network, "tf32_matmul": tf32}
        read, calls = trace_counted(generation.prefill, **options)
        prefill = PhaseCost(
            phase="prefill",
            work=workload.work("prefill"),
            kernels=merged(kernels_of(read)),
            parameter_b=weights_b,
            host_calls=calls,
        )
        generation.rewind()  # fills a cache with a context, once
        rewind = trace(generation.rewind)
        steps = traced_steps(
            lambda index: lambda: generation.step(index),
            generation.lengthen,
            settings.new_tokens,
            kernels=_fused_kernels if settings.compile else kernels_of,
            **options,
        )
        decode = PhaseCost(
            phase="decode",
            work=workload.work("decode"),
            kernels=merged((*rewind, *steps.kernels)),
            parameter_b=weights_b,
            num_graphs=settings.new_tokens if settings.compile else 0,
            host_calls=0 if settings.compile else steps.host_calls,
        )
        held_b = weights_b + _cache_b(generation, settings)
    return WorkloadCost(unit=workload.unit, phases=(prefill, decode), resident_b=held_b)


def _fused_kernels(program: Program) -> Kernels:
    """Return one kernel for each group, named and placed after its operator of most operations."""
    groups = fused(program)
    return tuple(
        _fused_kernel(program, group, moved_b)
        for group, moved_b in zip(groups, traffic(program, groups), strict=True)
    )


def _fused_kernel(program: Program, group: tuple[int, ...], moved_b: Traffic) -> KernelCost:
    operators = [program.operators[index] for index in group]
    main = operators[main_operator(operators)]
    read_b, weight_b, written_b, _ = moved_b
    return replace(
        kernel_of(main),
        flop=sum(operator.flop for operator in operators),
        dram_b=read_b + weight_b + written_b,
        weight_b=weight_b,
        written_b=written_b,
    )


def _weights_b(network: torch.nn.Module) -> int:
    return sum(
        part.numel() * part.element_size()
        for weights in network.parameters()
        for part in dense_parts(weights)
    )


def _cache_b(generation: Generation, settings: LanguageSettings) -> int:
    tokens = settings.cached_tokens + settings.new_tokens
    if settings.context_tokens is not None:  # the prefill has a cache of its own
        tokens += settings.prompt_tokens
        tokens += settings.new_tokens if settings.kv_cache == "static" else 0
    return settings.batch * tokens * generation.cached_b_per_token
