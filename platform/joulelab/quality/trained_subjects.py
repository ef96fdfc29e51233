"""What the small networks that are trained on this machine put out, to be scored."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.base import FloatArray, MakesImages
from joulelab.quality.image_data import ImageData, LabelledData
from joulelab.quality.language_subjects import LanguageOutputs, LanguageSubject
from joulelab.quality.subject import AnyNetwork, NetworkSubject
from joulelab.quality.text_data import TextData
from joulelab.quality.vision_subjects import ClassSubject
from joulelab.workloads.char_lm import generated_text
from joulelab.workloads.digits import DigitsDiffusion, DigitsLstm, DigitsVit
from joulelab.workloads.digits_data import held_out_digits, training_digits

_NUM_IMAGES = 256
_NUM_TEXTS = 16
_WORDS_PER_TEXT = 150
_HELD_OUT_SEED = 1000
_NUM_COPIES = 4
_NOISE = 0.2  # share of the range of a pixel


class DigitsSubject(ClassSubject[AnyNetwork]):
    """A network that reads digits."""

    metrics: ClassVar = ("accuracy", "class_agreement", "class_divergence")

    @staticmethod
    @override
    def read_data(source: str | None) -> LabelledData:
        require_no_source(source)
        return noisy_held_out_digits()


class DigitsVitSubject(DigitsSubject[DigitsVit]):
    """The Vision Transformer."""

    @override
    def scores(self, inputs: Any) -> Any:
        return self.network(pixel_values=inputs).logits


class DigitsLstmSubject(DigitsSubject[DigitsLstm]):
    """The LSTM, which sees as many rows as its settings say."""

    @override
    def scores(self, inputs: Any) -> Any:
        return self.network(inputs[:, 0, : self.workload.settings.rows].contiguous())


class DigitsDiffusionSubject(NetworkSubject[DigitsDiffusion]):
    """The network that draws digits."""

    metrics: ClassVar = ("frechet_distance", "ssim")
    answers: ClassVar = (MakesImages,)

    @staticmethod
    @override
    def read_data(source: str | None) -> ImageData:
        from joulelab.workloads.digits_networks import DigitsJudge

        require_no_source(source)
        return ImageData(
            name="digits",
            prompts=("",) * _NUM_IMAGES,
            images=tuple(training_digits().images),
            judge=DigitsJudge(),
        )

    def make_images(self, prompts: Sequence[str]) -> FloatArray:
        """Draw as many digits as there are prompts; what those say is ignored."""
        from joulelab.workloads import accelerator
        from joulelab.workloads.digits_drawing import DigitsDenoising

        settings = self.workload.settings
        with accelerator.computing(settings.precision):
            denoising = DigitsDenoising(
                self.network, settings.scheduler, settings.steps, len(prompts)
            )
            denoising()
            images: FloatArray = denoising.latents.float().cpu().numpy()
        return np.clip((images + 1) / 2, 0, 1)


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
    def outputs(self, network: Any) -> LanguageOutputs:
        return LanguageOutputs(network, None, self.workload.settings.precision)


def noisy_held_out_digits() -> LabelledData:
    """Return the digits that no classifier has seen, four times each with other noise.

    The noise makes many of them hard, so that small changes of a network show.
    """
    digits = held_out_digits()
    images = np.concatenate([digits.images] * _NUM_COPIES)
    noise = np.random.default_rng(_HELD_OUT_SEED).standard_normal(images.shape)
    return LabelledData(
        name="noisy digits",
        inputs=(images + _NOISE * noise).astype(np.float32),
        labels=np.concatenate([digits.labels] * _NUM_COPIES),
        groups=np.tile(np.arange(len(digits.labels)), _NUM_COPIES),
    )


def require_no_source(source: str | None) -> None:
    """Refuse a data set from elsewhere; ConfigError if there is one."""
    if source is not None:
        raise ConfigError(
            f"This network knows its own data set alone; leave data out, got {source!r}."
        )
