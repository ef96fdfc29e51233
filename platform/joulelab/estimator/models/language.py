"""Language models that generate: prefill of a prompt, then decode on a key-value cache.

Imports torch, so it is imported only by functions that find or trace a model.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.averaging import averaged_programs
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.estimator.models.fake_trace import fake_run, grouped_products, shapes_of, torch_dtype
from joulelab.estimator.models.network import NetworkModel, call_by_name
from joulelab.estimator.models.sharding_rules import check_shards, sharding_plan
from joulelab.estimator.program import Program, ProgramPhase
from joulelab.estimator.tracing.building import fake_network
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision
from joulelab.estimator.tracing.trace import trace_program

ensure_torchvision()

from transformers import DynamicCache, PreTrainedConfig  # noqa: E402

_PROMPT_TOKENS = 512
_NEW_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel(Model):
    """A causal language model of transformers, with greedy generation.

    Its decode is traced at the first and at the last step: operations and bytes grow linearly
    with the cache in between, so their mean is exact. What memory holds is that of the last.

    Attributes:
        title: Its name, for messages.
        config: Its configuration.
        build: Makes the network.
    """

    title: str
    config: PreTrainedConfig
    build: Callable[[], torch.nn.Module]

    @property
    @override
    def unit(self) -> str:
        return "token"

    @property
    @override
    def knobs(self) -> Knobs:
        longest = getattr(self.config, "max_position_embeddings", None) or 10**9
        prompt_tokens = min(_PROMPT_TOKENS, longest // 2)
        return {"prompt_tokens": prompt_tokens, "new_tokens": min(_NEW_TOKENS, longest // 2)}

    @property
    @override
    def sharding_plan(self) -> Mapping[str, str]:
        return sharding_plan(self.config)

    @override
    def check_shards(self, num_devices: int) -> None:
        check_shards(self.config, num_devices, self.title)

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
        return grouped_products() if has_experts else nullcontext()

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
        first = last = self._trace_step()
        if new_tokens > 1:
            self._lengthen(new_tokens - 2)
            last = self._trace_step()
        return averaged_programs(first, last)

    def _trace_step(self) -> Program:
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

    def _lengthen(self, num_tokens: int) -> None:
        """Append ``num_tokens`` tokens of undefined content to the cache, without computing."""
        if num_tokens < 1:
            return
        for index, layer in enumerate(self._cache.layers):
            keys, values = (getattr(layer, name, None) for name in ("keys", "values"))
            if isinstance(keys, torch.Tensor) and isinstance(values, torch.Tensor):
                shapes = [(*part.shape[:2], num_tokens, part.shape[3]) for part in (keys, values)]
                self._cache.update(keys.new_empty(shapes[0]), values.new_empty(shapes[1]), index)
