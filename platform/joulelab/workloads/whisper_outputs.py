"""What Whisper expects to be said in a recording, to be scored."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.quality.protocols import FloatArray, ReadsTokens
from joulelab.quality.speech_data import RATE_HZ, SpeechData, read_speech
from joulelab.workloads.language_outputs import TokenReader, tokenizer_of
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


@dataclass(frozen=True, slots=True)
class WhisperOutputs:
    """A loaded Whisper network.

    Attributes:
        network: The network.
        tokenizer: Its tokenizer, if it has one.
        precision: The precision in which it computes.
    """

    network: Any
    tokenizer: Any
    precision: str

    def hearing(self, recording: FloatArray) -> "Heard":
        """Encode ``recording``, at most its first 30 seconds."""
        from transformers import WhisperFeatureExtractor

        from joulelab.workloads import accelerator

        extractor: Any = WhisperFeatureExtractor(self.network.config.num_mel_bins)  # type: ignore[no-untyped-call]
        read = extractor(np.asarray(recording), sampling_rate=RATE_HZ, return_tensors="pt")
        features = read.input_features.to(self.network.device, self.network.dtype)
        with accelerator.computing(self.precision):
            encoded = self.network.model.encoder(features)
        return Heard(self, encoded)


class Heard(TokenReader):
    """A network that has heard a recording, and reads what is said in it.

    Args:
        outputs: The network.
        encoded: What its encoder made of the recording.
    """

    max_tokens = MOST_TOKENS

    def __init__(self, outputs: WhisperOutputs, encoded: Any) -> None:
        super().__init__(outputs.network, outputs.tokenizer, outputs.precision)
        self._encoded = encoded

    @override
    def token_ids(self, text: str) -> list[int]:
        read = super().token_ids(text)
        if self._tokenizer is not None:
            return read  # which start as every text of Whisper does
        return [self._network.config.decoder_start_token_id, *read]

    @override
    def predicted(self, tokens: Any) -> Any:
        return self._network(
            decoder_input_ids=tokens, encoder_outputs=self._encoded, use_cache=False
        )
