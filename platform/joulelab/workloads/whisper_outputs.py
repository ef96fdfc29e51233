"""What Whisper expects to be said in a recording, to be scored."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.speech_data import RATE_HZ, SpeechData, read_speech
from joulelab.workloads.language_outputs import tokenizer_of
from joulelab.workloads.network_outputs import NetworkSubject
from joulelab.workloads.whisper import Whisper
from joulelab.workloads.whisper_geometry import MOST_TOKENS


class WhisperSubject(NetworkSubject[Whisper]):
    """Whisper, which predicts each token of a text that it is given with the recording."""

    metrics: ClassVar = ("kl_divergence", "token_agreement")
    answers: ClassVar = (ReadsTokens,)  # once it hears a recording
    without_effect: ClassVar = frozenset({"batch", "audio_seconds", "beams", "tokens_per_second"})

    @staticmethod
    @override
    def read_data(source: str | None) -> SpeechData:
        return read_speech(source)

    @override
    def build(self, workload: Any, device: Any) -> Any:
        from joulelab.workloads.whisper_network import network_of

        return network_of(workload.settings, device)

    @override
    def outputs(self, network: Any) -> "WhisperOutputs":
        settings = self.workload.settings
        return WhisperOutputs(network, tokenizer_of(settings.weights), settings.precision)


class WhisperOutputs:
    """A loaded Whisper network.

    Args:
        network: The network.
        tokenizer: Its tokenizer, if it has one.
        precision: The precision in which it computes.
    """

    def __init__(self, network: Any, tokenizer: Any, precision: str) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._precision = precision

    def hearing(self, recording: FloatArray) -> "Heard":
        """Encode ``recording``, at most its first 30 seconds."""
        from transformers import WhisperFeatureExtractor

        from joulelab.workloads import accelerator

        extractor: Any = WhisperFeatureExtractor(self._network.config.num_mel_bins)  # type: ignore[no-untyped-call]
        read = extractor(np.asarray(recording), sampling_rate=RATE_HZ, return_tensors="pt")
        features = read.input_features.to(self._network.device, self._network.dtype)
        with accelerator.computing(self._precision):
            encoded = self._network.model.encoder(features)
        return Heard(self._network, self._tokenizer, self._precision, encoded)


class Heard:
    """A network that has heard a recording, and reads what is said in it.

    Args:
        network: The network.
        tokenizer: Its tokenizer; without one it reads the bytes of a text.
        precision: The precision in which it computes.
        encoded: What its encoder made of the recording.
    """

    max_tokens = MOST_TOKENS

    def __init__(self, network: Any, tokenizer: Any, precision: str, encoded: Any) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._precision = precision
        self._encoded = encoded

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``, after those that every text starts with."""
        if self._tokenizer is not None:
            return list(self._tokenizer(text)["input_ids"])
        return [self._network.config.decoder_start_token_id, *text.encode()]

    def logits(self, token_ids: Sequence[int]) -> FloatArray:
        """Return the prediction of every next token, shape (n, vocabulary)."""
        import torch

        from joulelab.workloads import accelerator

        tokens = torch.tensor([list(token_ids)], device=self._network.device)
        with accelerator.computing(self._precision):
            found = self._network(
                decoder_input_ids=tokens, encoder_outputs=self._encoded, use_cache=False
            )
            logits: FloatArray = found.logits[0].float().cpu().numpy()
        return logits
