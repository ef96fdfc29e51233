"""Speech recognisers: an encoder over audio features, then decoding of text from it.

Imports torch, so it is imported only by functions that find or trace a model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.estimator.models.language import lengthen
from joulelab.estimator.models.network import fake_run, shapes_of, torch_dtype
from joulelab.tracing.kernels import mean_step
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, trace_program
from joulelab.workloads.whisper import START_TOKENS, WINDOW_S

ensure_torchvision()

from transformers import DynamicCache, EncoderDecoderCache, PreTrainedConfig  # noqa: E402


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
        new_tokens = self._new_tokens(request)
        dtype = torch_dtype(request.dtype)
        with fake_run(self.title):
            network = fake_network(self.build, dtype)
            network.train(mode=False)
            features = self._features(request.batch, dtype)
            recognition = _Recognition(network, self.config, features)
            programs = {
                "encode": (recognition.trace_encoder(), 1),
                "prompt": (recognition.trace_prompt(), 1),
                "decode": (recognition.trace_decode(new_tokens), new_tokens),
            }
        work = request.batch * WINDOW_S
        phases = tuple(
            ProgramPhase(phase=phase, work=work, program=program, count=count)
            for phase, (program, count) in programs.items()
        )
        return Traced(phases=phases, inputs=shapes_of({"audio features": features}))

    def _new_tokens(self, request: Request) -> int:
        longest = int(self.config.max_target_positions) - START_TOKENS
        new_tokens = int(str(request.knobs["new_tokens"]))
        if request.training:
            raise ConfigError(f"No training step of {self.title} is traced: only its inference is.")
        if not 1 <= new_tokens <= longest:
            raise ConfigError(f"new_tokens must be 1 to {longest}, got {new_tokens}.")
        return new_tokens

    def _features(self, batch: int, dtype: torch.dtype) -> torch.Tensor:
        # Two frames of features per position of the encoder, whose first layers halve them.
        config: Any = self.config
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        return torch.empty(shape, dtype=dtype)


class _Recognition:
    """Steps of one recognition on fake tensors."""

    def __init__(self, network: Any, config: PreTrainedConfig, features: torch.Tensor) -> None:
        self._network = network
        self._features = features
        self._cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        self._encoded: Any = None

    def trace_encoder(self) -> Program:
        def encode() -> None:
            self._encoded = self._network.model.encoder(self._features)

        return trace_program(encode, network=self._network, inputs=(self._features,))

    def trace_prompt(self) -> Program:
        return self._trace_step(START_TOKENS)

    def trace_decode(self, new_tokens: int) -> Program:
        own = self._cache.self_attention_cache
        return mean_step(lambda _: self._trace_step(1), lambda num: lengthen(own, num), new_tokens)

    def _trace_step(self, num_tokens: int) -> Program:
        tokens = torch.empty(self._features.shape[0], num_tokens, dtype=torch.long)
        inputs = (tokens, self._encoded.last_hidden_state)
        return trace_program(
            lambda: self._step(tokens), network=self._network, inputs=inputs, kv=self._cache
        )

    def _step(self, tokens: torch.Tensor) -> object:
        output = self._network(
            decoder_input_ids=tokens,
            encoder_outputs=self._encoded,
            past_key_values=self._cache,
            use_cache=True,
        )
        return torch.argmax(output.logits[:, -1], dim=-1, keepdim=True)
