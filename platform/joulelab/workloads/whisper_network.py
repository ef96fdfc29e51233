"""A Whisper network of transformers, its decoding of windows of audio, and what that costs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._guards import active_fake_mode

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.tracing.kernels import kernels_of, merged, repeated
from joulelab.tracing.trace import fake_tensors
from joulelab.workloads import formats
from joulelab.workloads.network import NetworkWorkload
from joulelab.workloads.network_cost import trace_counted, traced_steps

from transformers import (  # isort: skip  # hub makes it importable
    DynamicCache,
    EncoderDecoderCache,
    WhisperFeatureExtractor,
)
from transformers.modeling_outputs import BaseModelOutput  # isort: skip


_SYLLABLES_HZ = 4.0  # rate at which speech swells and ebbs


class Recognition:
    """One window of every recording: encoded, and decoded by a beam search.

    No step waits for the device: each next token stays on it. So texts do not end by themselves,
    but have the same length, as the time and energy of a measurement must.
    """

    def __init__(
        self,
        network: Any,
        *,
        batch: int,
        window_s: float,
        beams: int,
        start_tokens: int,
        new_tokens: int,
    ) -> None:
        self.network = network
        """The network that recognises."""
        self.features = _features(network, batch, window_s)
        """Log-mel spectra, shape (batch, bins, frames)."""
        self._beams, self._new_tokens = beams, new_tokens
        self._heard: Any = None
        self.num_texts = batch * beams
        """Texts that are decoded side by side."""
        device = network.device
        start = torch.full((self.num_texts, start_tokens), network.config.decoder_start_token_id)
        self._start = start.to(device)
        self.cache: Any = None
        """Keys and values of the texts so far, and of what was heard."""
        self.texts = self._start
        """Token ids, shape (texts, tokens), the start included; best texts first."""
        self._scores = torch.zeros(self.num_texts, device=device)

    def encode(self) -> None:
        """Encode the window."""
        self._heard = self.network.model.encoder(self.features).last_hidden_state

    def decode(self) -> None:
        """Generate the text of the window, as many tokens as the settings say."""
        self.start()
        for _ in range(self._new_tokens - 1):
            self.step()

    def start(self) -> None:
        """Read the start of every text into an empty cache, and generate the first token."""
        if self._heard is None:
            self.encode()
        config = self.network.config
        self.cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        self.texts = self._start
        # The beams of a recording start alike: all but the first are out of the running.
        texts = torch.arange(self.num_texts, device=self.network.device)
        self._scores = torch.where(texts % self._beams == 0, 0.0, -torch.inf)
        self._extend(self._start)

    def step(self) -> None:
        """Read the last token of every text and generate the next."""
        self._extend(self.texts[:, -1:])

    def lengthen(self, num_tokens: int) -> None:
        """Append ``num_tokens`` tokens of no meaning to every text, without computing."""
        own = self.cache.self_attention_cache
        for index, layer in enumerate(own.layers):
            shape = (*layer.keys.shape[:2], num_tokens, layer.keys.shape[3])
            own.update(layer.keys.new_empty(shape), layer.values.new_empty(shape), index)
        self.texts = torch.nn.functional.pad(self.texts, (0, num_tokens))

    def _extend(self, tokens: torch.Tensor) -> None:
        heard = self._heard.repeat_interleave(self._beams, dim=0)
        output = self.network(
            decoder_input_ids=tokens,
            encoder_outputs=BaseModelOutput(last_hidden_state=heard),
            past_key_values=self.cache,
            use_cache=True,
        )
        logits = output.logits[:, -1]
        if self._beams == 1:
            self.texts = torch.cat((self.texts, logits.argmax(-1, keepdim=True)), dim=1)
        else:
            self._choose(logits)

    def _choose(self, logits: torch.Tensor) -> None:
        """Keep the likeliest texts of each recording, whatever beam they come from."""
        beams = self._beams
        batch = self.num_texts // beams
        scores = logits.float().log_softmax(-1) + self._scores.unsqueeze(1)
        best, index = scores.reshape(batch, -1).topk(beams)
        vocabulary = logits.shape[-1]
        first = beams * torch.arange(batch, device=logits.device).unsqueeze(1)
        parents = (first + index // vocabulary).reshape(-1)
        self._scores = best.reshape(-1)
        self.cache.reorder_cache(parents)
        tokens = (index % vocabulary).reshape(-1, 1)
        self.texts = torch.cat((self.texts.index_select(0, parents), tokens), dim=1)


def _features(network: Any, batch: int, window_s: float) -> torch.Tensor:
    """Return the log-mel spectra of noise like speech, a different one for each recording."""
    config = network.config
    dtype, device = network.dtype, network.device
    if active_fake_mode() is not None:
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        return torch.empty(shape, dtype=dtype, device=device)
    extractor: Any = WhisperFeatureExtractor(config.num_mel_bins)  # type: ignore[no-untyped-call]
    rate = extractor.sampling_rate
    audio = [speech_like(window_s, rate, seed) for seed in range(batch)]
    features = extractor(audio, sampling_rate=rate, return_tensors="pt").input_features
    spectra: torch.Tensor = features.to(device=device, dtype=dtype)
    return spectra


def speech_like(duration_s: float, rate_hz: int, seed: int) -> NDArray[np.float32]:
    """Return noise of falling spectrum that swells and ebbs as syllables do, within -1..1."""
    num_samples = max(round(duration_s * rate_hz), 1)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(num_samples))
    spectrum /= np.sqrt(np.arange(1, spectrum.size + 1))  # pink: -3 dB per octave
    noise = np.fft.irfft(spectrum, num_samples)
    t_s = np.arange(num_samples) / rate_hz
    swelling = 0.55 - 0.45 * np.cos(2 * np.pi * _SYLLABLES_HZ * t_s)
    audio = noise * swelling
    loudest = np.abs(audio).max()
    return np.asarray(0.9 * audio / loudest, dtype=np.float32)


def traced_cost(
    workload: NetworkWorkload[Any], recognition_of: Callable[[Any], Recognition]
) -> WorkloadCost:
    """Return the costs of all windows of a run of ``workload``, and the most bytes held."""
    settings, tf32 = workload.settings, workload.settings.precision == "tf32"
    with fake_tensors():
        network = workload.network(torch.device("cpu"))
        recognition = recognition_of(network)
        formats.store_in(network, settings.precision)
        options: dict[str, Any] = {"network": network, "tf32_matmul": tf32, "tf32_conv": tf32}
        encoder, encoder_calls = trace_counted(
            recognition.encode, inputs=(recognition.features,), **options
        )
        start, start_calls = trace_counted(recognition.start, **options)
        steps = traced_steps(
            lambda _: recognition.step,
            recognition.lengthen,
            settings.new_tokens - 1,
            kv=recognition.cache,
            **options,
        )
    times = settings.num_windows
    phases = tuple(
        PhaseCost(
            phase=phase,
            work=times * workload.work(phase),
            kernels=merged(repeated(kernels, times)),
            parameter_b=encoder.parameter_b,
            host_calls=times * num_calls,
        )
        for phase, kernels, num_calls in (
            ("encoder", kernels_of(encoder), encoder_calls),
            ("decoder", (*kernels_of(start), *steps.kernels), start_calls + steps.host_calls),
        )
    )
    held_b = max(encoder.held_b, start.held_b, steps.held_b)
    return WorkloadCost(unit=workload.unit, phases=phases, resident_b=held_b)
