"""Language models that generate: prefill of a prompt, then decode on a key-value cache.

Imports torch, so it is imported only by functions that find or trace a model.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.estimator.models.network import (
    GroupedProducts,
    NetworkModel,
    call_by_name,
    fake_run,
    shape_text,
    shapes_of,
    torch_dtype,
)
from joulelab.tracing.kernels import mean_step
from joulelab.tracing.precision import is_quantised
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, trace_program
from joulelab.workloads.formats import store_in
from joulelab.workloads.generation import Generation
from joulelab.workloads.language import LanguageWorkload

ensure_torchvision()

from transformers import DynamicCache, PreTrainedConfig  # noqa: E402

_PROMPT_TOKENS = 512
_NEW_TOKENS = 64
_CUT = {"colwise": "colwise", "rowwise": "rowwise", "moe_tp_experts": "experts"}
_DIVIDED = (
    *("num_attention_heads", "num_key_value_heads"),
    *("intermediate_size", "moe_intermediate_size"),
)
"""What is divided among the devices, in a configuration's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel(Model):
    """A causal language model of transformers, with greedy generation.

    Its decode is traced at the first and at the last step: operations and bytes grow linearly
    with the cache in between, so their mean is exact. What memory holds is that of the last.
    """

    unit: ClassVar[str] = "token"
    title: str
    config: PreTrainedConfig
    build: Callable[[], torch.nn.Module]

    @property
    @override
    def knobs(self) -> Knobs:
        longest = getattr(self.config, "max_position_embeddings", None) or 10**9
        prompt_tokens = min(_PROMPT_TOKENS, longest // 2)
        return {"prompt_tokens": prompt_tokens, "new_tokens": min(_NEW_TOKENS, longest // 2)}

    @property
    @override
    def sharding_plan(self) -> Mapping[str, str]:
        plan = getattr(self.config, "base_model_tp_plan", None) or {}
        return {pattern: _CUT[style] for pattern, style in plan.items() if style in _CUT}

    @override
    def check_shards(self, num_devices: int) -> None:
        for name in _DIVIDED:
            size = getattr(self.config, name, None)
            if isinstance(size, int) and size % num_devices:
                raise ConfigError(
                    f"{self.title} has {name} {size}, which {num_devices} devices cannot share "
                    f"equally; use a number that divides {size}."
                )

    @override
    def trace(self, request: Request) -> Traced:
        if request.training:
            return self._training_model().trace(request)
        prompt_tokens, new_tokens = lengths(request.knobs, self._longest)
        with fake_run(self.title), self._around():
            network = fake_network(self.build, torch_dtype(request.dtype))
            network.train(mode=False)
            generation = _Generation(network, self.config, request.batch)
            prompt = generation.prompt(prompt_tokens)
            prefill = generation.trace_prefill(prompt)
            decode = generation.trace_decode(prompt_tokens, new_tokens)
        work = request.batch * prompt_tokens
        phases = [ProgramPhase(phase="prefill", work=work, program=prefill)]
        if decode is not None:
            work = request.batch * new_tokens
            phases.append(ProgramPhase(phase="decode", work=work, program=decode, count=new_tokens))
        return Traced(phases=tuple(phases), inputs=shapes_of({"prompt": prompt}))

    @property
    def _longest(self) -> int | None:
        return getattr(self.config, "max_position_embeddings", None)

    def _around(self) -> AbstractContextManager[object]:
        has_experts = any("experts" in name for name in self.config.to_dict())
        return GroupedProducts() if has_experts else nullcontext()  # type: ignore[no-untyped-call]

    def _training_model(self) -> NetworkModel:
        """Return the model that reads ``prompt_tokens`` and learns to predict each."""
        return NetworkModel(
            title=self.title,
            unit=self.unit,
            knobs=self.knobs,
            build=lambda _: self.build(),
            make_inputs=lambda batch, knobs: {
                "input_ids": torch.empty(batch, lengths(knobs, self._longest)[0], dtype=torch.long)
            },
            call=lambda network, inputs: call_by_name(network, inputs).logits,  # type: ignore[attr-defined]
            around=self._around,
            work_per_sample=lambda knobs: lengths(knobs, self._longest)[0],
        )


def lengths(knobs: Knobs, longest: int | None = None) -> tuple[int, int]:
    """Return ``prompt_tokens`` and ``new_tokens`` of ``knobs``.

    Raises:
        ConfigError: If they are not whole numbers that fit ``longest``.
    """
    prompt_tokens, new_tokens = (int(str(knobs[name])) for name in ("prompt_tokens", "new_tokens"))
    if prompt_tokens < 1 or new_tokens < 0:
        raise ConfigError(
            "prompt_tokens must be at least 1 and new_tokens at least 0, "
            f"got {prompt_tokens} and {new_tokens}."
        )
    if longest is not None and prompt_tokens + new_tokens > longest:
        raise ConfigError(
            f"prompt_tokens + new_tokens must be at most {longest} for this model, "
            f"got {prompt_tokens} + {new_tokens}."
        )
    return prompt_tokens, new_tokens


class _Generation:
    """Steps of a greedy generation on fake tensors."""

    def __init__(self, network: Any, config: PreTrainedConfig, batch: int) -> None:
        self._network = network
        self._batch = batch
        self._cache = DynamicCache(config=config)

    def prompt(self, num_tokens: int) -> torch.Tensor:
        return torch.empty(self._batch, num_tokens, dtype=torch.long)

    def trace_prefill(self, prompt: torch.Tensor) -> Program:
        return trace_program(lambda: self._step(prompt), network=self._network, inputs=(prompt,))

    def trace_decode(self, prompt_tokens: int, new_tokens: int) -> Program | None:
        """Trace the steps after the prefill, which must have been traced; their mean."""
        if new_tokens < 1:
            return None
        return mean_step(self._trace_step, lambda num: lengthen(self._cache, num), new_tokens)

    def _trace_step(self, _: int) -> Program:
        token = self.prompt(1)
        return trace_program(
            lambda: self._step(token),
            network=self._network,
            inputs=(token,),
            kv=self._cache,
        )

    def _step(self, tokens: torch.Tensor) -> object:
        output = self._network(
            input_ids=tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        return torch.argmax(output.logits[:, -1], dim=-1, keepdim=True)


def lengthen(cache: DynamicCache, num_tokens: int) -> None:
    """Append ``num_tokens`` tokens of undefined content to ``cache``, without computing."""
    if num_tokens < 1:
        return
    for index, layer in enumerate(cache.layers):
        keys, values = (getattr(layer, name, None) for name in ("keys", "values"))
        if isinstance(keys, torch.Tensor) and isinstance(values, torch.Tensor):
            shapes = [(*part.shape[:2], num_tokens, part.shape[3]) for part in (keys, values)]
            cache.update(keys.new_empty(shapes[0]), values.new_empty(shapes[1]), index)


def trace_language(workload: LanguageWorkload[Any]) -> Traced:
    """Trace one prefill and the mean step of one decode, with layers quantised as they run."""
    settings = workload.settings
    as_run = settings.precision if is_quantised(settings.precision) else ""
    with fake_run(settings.model):
        generation = Generation(workload.network(torch.device("cpu")), settings)
        network = generation.network
        store_in(network, settings.precision)
        prefill = trace_program(generation.prefill, network=network, inputs=generation.prompt)
        decode = _decode(generation, settings.new_tokens)
    programs = {"prefill": (prefill, 1), "decode": (decode, settings.new_tokens)}
    phases = tuple(
        ProgramPhase(
            phase=phase,
            work=workload.work(phase),
            program=replace(program, precision=as_run),
            count=count,
        )
        for phase, (program, count) in programs.items()
    )
    return Traced(phases=phases, inputs={"prompt": shape_text(generation.prompt)})


def _decode(generation: Generation, new_tokens: int) -> Program:
    def step(index: int) -> Program:
        return trace_program(
            lambda: generation.step(index),
            network=generation.network,
            inputs=generation.tokens,
            kv=generation.cache,
        )

    generation.rewind()
    return mean_step(step, generation.lengthen, new_tokens)
