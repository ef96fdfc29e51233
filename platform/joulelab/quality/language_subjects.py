"""What language models and Whisper expect to be said, to be scored."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.base import FloatArray, GeneratesText, ReadsTokens, require_finite
from joulelab.quality.subject import NetworkSubject, require_no_source
from joulelab.quality.text_data import RATE_HZ, TextData, read_speech, read_text_data
from joulelab.workloads.char_lm import generated_text
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.whisper import MOST_TOKENS, Whisper

_BYTES = 256
_NUM_TEXTS = 16
_WORDS_PER_TEXT = 150
_HELD_OUT_SEED = 1000
_LONGEST = 2048  # for a network without positions of its own, as with ALiBi


class LanguageSubject(NetworkSubject[LanguageWorkload[Any]]):
    """A causal language model of transformers that reads and continues texts."""

    metrics: ClassVar = ("perplexity", "kl_divergence", "token_agreement")
    answers: ClassVar = (ReadsTokens, GeneratesText)
    without_effect: ClassVar = frozenset(
        {"batch", "prompt_tokens", "context_tokens", "new_tokens", "kv_cache", "compile"}
    )
    folders: ClassVar = ("weights", "model")  # a model may be a folder that tells its geometry
    read_data = staticmethod(read_text_data)

    @override
    def outputs(self, network: Any) -> "LanguageOutputs":
        settings = self.workload.settings
        return LanguageOutputs(network, tokenizer_of(settings.weights), settings.precision)


class CharLmSubject(LanguageSubject):
    """The language model of bytes, on texts of its language that it has not read."""

    @staticmethod
    @override
    def read_data(source: str | None) -> TextData:
        require_no_source(source)
        seeds = range(_HELD_OUT_SEED, _HELD_OUT_SEED + _NUM_TEXTS)
        texts = tuple(generated_text(_WORDS_PER_TEXT, seed) for seed in seeds)
        return TextData(name="generated language", texts=texts)

    @override
    def outputs(self, network: Any) -> "LanguageOutputs":
        return LanguageOutputs(network, None, self.workload.settings.precision)


class TokenReader:
    """A loaded network that predicts each token of a text from those before it.

    Without a tokenizer, as a network with random weights is, it reads the bytes of a text.
    """

    def __init__(self, network: Any, tokenizer: Any, precision: str) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._precision = precision
        self._vocabulary = int(network.config.vocab_size)

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``."""
        if self._tokenizer is not None:
            return list(self._tokenizer(text)["input_ids"])
        return list(text.encode())

    def logits(self, token_ids: Sequence[int]) -> FloatArray:
        """Return the prediction of every next token, shape (n, vocabulary)."""
        from joulelab.workloads import accelerator

        with accelerator.computing(self._precision):
            output = self.predicted(self._tensor(token_ids))
            logits: FloatArray = output.logits[0].float().cpu().numpy()
        return logits

    def predicted(self, tokens: Any) -> Any:
        """Return what the network makes of a tensor of tokens, shape (1, n)."""
        return self._network(input_ids=tokens, use_cache=False)

    def _tensor(self, token_ids: Sequence[int]) -> Any:
        import torch

        return torch.tensor([list(token_ids)], device=self._network.device)


class LanguageOutputs(TokenReader):
    """A loaded language model."""

    @property
    def max_tokens(self) -> int:
        """Longest sequence that it reads."""
        config = self._network.config
        return int(getattr(config, "max_position_embeddings", _LONGEST))

    def generate(self, prompts: Sequence[str], *, new_tokens: int) -> list[str]:
        """Return the greedy continuation of each prompt.

        Prompts are continued one by one: padding them to one length would change the
        numbers. Raises ConfigError if the network has neither a tokenizer nor bytes as its
        tokens, MeasurementError if what it predicts is no number.
        """
        if self._tokenizer is None and self._vocabulary != _BYTES:
            raise ConfigError(
                "A network with random weights has no tokenizer to write text with; give weights, "
                "or score it by perplexity, kl_divergence or token_agreement."
            )
        return [self._continued(prompt, new_tokens) for prompt in prompts]

    def _continued(self, prompt: str, new_tokens: int) -> str:
        from joulelab.workloads import accelerator

        read = self._tensor(self.token_ids(prompt))
        with accelerator.computing(self._precision):
            written = self._network.generate(
                input_ids=read,
                attention_mask=read.new_ones(read.shape),
                max_new_tokens=new_tokens,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
            likeliest = [float(step.max()) for step in written.logits]
        require_finite("A text", np.array(likeliest))
        return self._text(written.sequences[0, read.shape[1] :].tolist())

    def _text(self, token_ids: Sequence[int]) -> str:
        if self._tokenizer is None:
            return bytes(token_ids).decode(errors="replace")
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))


def tokenizer_of(weights: str | None) -> Any:
    """Return the tokenizer of a checkpoint; ``None`` for random weights, which have none.

    Raises ConfigError if it cannot be read.
    """
    if weights is None:
        return None
    from joulelab.workloads import hub

    from transformers import AutoTokenizer  # isort: skip  # after hub, which prepares it

    with hub.reading(weights):
        return AutoTokenizer.from_pretrained(weights)


class WhisperSubject(NetworkSubject[Whisper]):
    """Whisper, which predicts each token of a text that it is given with the recording."""

    metrics: ClassVar = ("kl_divergence", "token_agreement")
    answers: ClassVar = (ReadsTokens,)  # once it hears a recording
    without_effect: ClassVar = frozenset({"batch", "audio_seconds", "beams", "tokens_per_second"})
    read_data = staticmethod(read_speech)

    @override
    def outputs(self, network: Any) -> "WhisperSubject":
        self._tokenizer = tokenizer_of(self.workload.settings.weights)
        return self

    def hearing(self, recording: FloatArray) -> "Heard":
        """Encode ``recording``, at most its first 30 seconds."""
        from transformers import WhisperFeatureExtractor

        from joulelab.workloads import accelerator

        extractor: Any = WhisperFeatureExtractor(self.network.config.num_mel_bins)  # type: ignore[no-untyped-call]
        read = extractor(np.asarray(recording), sampling_rate=RATE_HZ, return_tensors="pt")
        features = read.input_features.to(self.network.device, self.network.dtype)
        with accelerator.computing(self.workload.settings.precision):
            encoded = self.network.model.encoder(features)
        precision = self.workload.settings.precision
        return Heard(self.network, self._tokenizer, precision, encoded)


class Heard(TokenReader):
    """A network that has heard a recording, which it encoded, and reads what is said in it."""

    max_tokens = MOST_TOKENS

    def __init__(self, network: Any, tokenizer: Any, precision: str, encoded: Any) -> None:
        super().__init__(network, tokenizer, precision)
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
