"""Networks that generate text: language models, and speech recognisers over an encoder."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from typing_extensions import override

from joulelab.core.number_format import number_format
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.estimator.models.network import (
    GroupedProducts,
    NetworkModel,
    call_by_name,
    fake_run,
    shape_text,
    shapes_of,
)
from joulelab.tracing.kernels import mean_step
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, trace_program
from joulelab.workloads.formats import store_in
from joulelab.workloads.generation import Generation
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.whisper import START_TOKENS, WINDOW_S

ensure_torchvision()

from transformers import DynamicCache, EncoderDecoderCache, PreTrainedConfig  # noqa: E402

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
        if request.remedy:
            raise ConfigError(f"No remedy is traced for the inference of {self.title}.")
        prompt_tokens, new_tokens = lengths(request.knobs, self._longest)
        with fake_run(self.title), self._around():
            network = fake_network(self.build, getattr(torch, request.dtype))
            network.train(mode=False)
            steps = _Generation(network, DynamicCache(config=self.config), request.batch)
            programs = {"prefill": (steps.trace(prompt_tokens), prompt_tokens, 1)}
            if new_tokens:
                programs["decode"] = (steps.trace_decode(new_tokens), new_tokens, new_tokens)
        phases = tuple(
            ProgramPhase(phase=phase, work=request.batch * tokens, program=program, count=count)
            for phase, (program, tokens, count) in programs.items()
        )
        return Traced(phases=phases, inputs={"prompt": f"{request.batch}x{prompt_tokens}"})

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
    """Return ``prompt_tokens`` and ``new_tokens``; ConfigError unless they fit ``longest``."""
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
    """Steps of a greedy generation on fake tensors: each reads tokens and lengthens the cache."""

    def __init__(self, network: Any, cache: Any, batch: int) -> None:
        self._network = network
        self._cache = cache
        self._batch = batch

    def trace(self, num_tokens: int) -> Program:
        """Trace the step that reads so many tokens of each sequence."""
        tokens = torch.empty(self._batch, num_tokens, dtype=torch.long)
        return trace_program(
            lambda: torch.argmax(self._logits(tokens)[:, -1], dim=-1, keepdim=True),
            network=self._network,
            inputs=(tokens, self._heard()),
            kv=self._cache,
        )

    def trace_decode(self, new_tokens: int) -> Program:
        """Trace the steps after the first, which must have been traced; their mean."""
        own = getattr(self._cache, "self_attention_cache", self._cache)
        return mean_step(lambda _: self.trace(1), lambda num: lengthen(own, num), new_tokens)

    def _heard(self) -> object:
        return ()

    def _logits(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._network(
            input_ids=tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        ).logits
        return logits


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
    as_run = settings.precision if number_format(settings.precision).is_quantised else ""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechModel(Model):
    """Whisper: one window of audio is encoded, and its text generated greedily."""

    unit: ClassVar[str] = "audio second"
    knobs: ClassVar[Knobs] = {"new_tokens": 100}
    title: str
    config: PreTrainedConfig
    build: Callable[[], torch.nn.Module]

    @override
    def trace(self, request: Request) -> Traced:
        longest = int(self.config.max_target_positions) - START_TOKENS
        new_tokens = int(str(request.knobs["new_tokens"]))
        if request.training:
            raise ConfigError(f"No training step of {self.title} is traced: only its inference is.")
        if not 1 <= new_tokens <= longest:
            raise ConfigError(f"new_tokens must be 1 to {longest}, got {new_tokens}.")
        dtype = getattr(torch, request.dtype)
        with fake_run(self.title):
            network = fake_network(self.build, dtype)
            network.train(mode=False)
            features = self._features(request.batch, dtype)
            recognition = _Recognition(network, self.config, features)
            programs = {
                "encode": (recognition.trace_encoder(), 1),
                "prompt": (recognition.trace(START_TOKENS), 1),
                "decode": (recognition.trace_decode(new_tokens), new_tokens),
            }
        work = request.batch * WINDOW_S
        phases = tuple(
            ProgramPhase(phase=phase, work=work, program=program, count=count)
            for phase, (program, count) in programs.items()
        )
        return Traced(phases=phases, inputs=shapes_of({"audio features": features}))

    def _features(self, batch: int, dtype: torch.dtype) -> torch.Tensor:
        # Two frames of features per position of the encoder, whose first layers halve them.
        config: Any = self.config
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        return torch.empty(shape, dtype=dtype)


class _Recognition(_Generation):
    """Steps of one recognition on fake tensors."""

    def __init__(self, network: Any, config: PreTrainedConfig, features: torch.Tensor) -> None:
        own, of_encoder = DynamicCache(config=config), DynamicCache(config=config)
        super().__init__(network, EncoderDecoderCache(own, of_encoder), features.shape[0])
        self._features = features
        self._encoded: Any = None

    def trace_encoder(self) -> Program:
        def encode() -> None:
            self._encoded = self._network.model.encoder(self._features)

        return trace_program(encode, network=self._network, inputs=(self._features,))

    @override
    def _heard(self) -> object:
        return self._encoded.last_hidden_state

    @override
    def _logits(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._network(
            decoder_input_ids=tokens,
            encoder_outputs=self._encoded,
            past_key_values=self._cache,
            use_cache=True,
        ).logits
        return logits
