"""What networks see in images and sequences, and what they draw, to be scored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import (
    Boxes,
    Classifies,
    Detects,
    FloatArray,
    MakesImages,
    require_finite,
)
from joulelab.quality.image_data import ImageData, LabelledData, in_batches
from joulelab.quality.image_sets import (
    read_class_images,
    read_detection_images,
    read_prompts,
    read_tokens,
)
from joulelab.quality.subject import AnyNetwork, NetworkSubject, require_no_source
from joulelab.workloads.bert import QUESTION_SHARE, Bert
from joulelab.workloads.classification import Resnet50, Vit
from joulelab.workloads.detection import Detection
from joulelab.workloads.diffusion import Diffusion
from joulelab.workloads.digits import DigitsDiffusion, DigitsLstm
from joulelab.workloads.digits_data import held_out_digits, training_digits
from joulelab.workloads.lstm import Lstm

_BATCH = 64
_NUM_DRAWN = 256
_HELD_OUT_SEED = 1000
_NUM_COPIES = 4
_NOISE = 0.2  # share of the range of a pixel
_DETECTION_BATCH = 8
_SETTLING_BATCH = 8  # over which the batch norms of random networks settle


class ClassSubject(NetworkSubject[AnyNetwork]):
    """A network that tells classes apart, by default a Vision Transformer of images.

    It is asked in batches of one size, whatever the workload's.
    """

    metrics: ClassVar[tuple[str, ...]] = ("class_agreement", "class_divergence")
    answers: ClassVar = (Classifies,)
    read_data = staticmethod(read_class_images)

    def scores(self, inputs: Any) -> Any:
        """Return the scores of the classes of a tensor of inputs."""
        return self.network(pixel_values=inputs).logits

    def prepared(self) -> Callable[[list[Any]], Any]:
        """Return what turns inputs of the data set into one array or tensor for the network."""
        return np.stack

    def class_scores(self, inputs: Sequence[Any]) -> FloatArray:
        """Return the scores of the classes, shape (n, classes)."""
        from joulelab.workloads import accelerator

        prepared = self.prepared()
        with accelerator.computing(self.workload.settings.precision):
            found = [self._of(prepared(batch)) for batch in in_batches(inputs, _BATCH)]
        return np.concatenate(found)

    def _of(self, batch: Any) -> FloatArray:
        import torch

        from joulelab.workloads import accelerator, formats

        values = torch.as_tensor(batch)
        if values.is_floating_point():
            values = values.to(formats.storage_dtype(self.workload.settings.precision))
        return np.asarray(self.scores(values.to(accelerator.select_device())).float().cpu())


class VitSubject(ClassSubject[Vit]):
    """The Vision Transformer, its images prepared as its checkpoint says."""

    @override
    def prepared(self) -> Callable[[list[Any]], Any]:
        from joulelab.workloads.vision_network import prepared_for_vit

        return prepared_for_vit(self.workload.settings.weights, self.network.config.image_size)


class Resnet50Subject(ClassSubject[Resnet50]):
    """ResNet-50, its images prepared as torchvision does for its published weights."""

    @override
    def build(self, workload: Any, device: Any) -> Any:
        return _settled(workload, device)

    @override
    def prepared(self) -> Callable[[list[Any]], Any]:
        from joulelab.workloads.vision_network import prepared_for_resnet50

        return prepared_for_resnet50(self.workload.settings.image_size)

    @override
    def scores(self, inputs: Any) -> Any:
        return self.network(inputs)


class TokenSubject(ClassSubject[AnyNetwork]):
    """A network that tells classes of sequences apart, as long as the data set has them."""

    without_effect: ClassVar = frozenset({"batch", "sequence_tokens", "tokens"})
    read_data = staticmethod(read_tokens)


class LstmSubject(TokenSubject[Lstm]):
    """The LSTM. Tokens beyond its vocabulary are counted round."""

    @override
    def scores(self, inputs: Any) -> Any:
        vocabulary = self.network.embedding.num_embeddings
        return self.network.train(mode=False)(inputs % vocabulary)


class BertSubject(TokenSubject[Bert]):
    """BERT, whose classes are the spans that an answer may be: start times tokens plus end."""

    @override
    def scores(self, inputs: Any) -> Any:
        import torch

        tokens = inputs.shape[1]
        is_text = torch.arange(tokens, device=inputs.device) >= tokens // QUESTION_SHARE
        found = self.network(input_ids=inputs, token_type_ids=is_text.long().expand(inputs.shape))
        starts, ends = found.start_logits.float(), found.end_logits.float()
        return (starts[:, :, None] + ends[:, None, :]).flatten(1)


class DetectionSubject(NetworkSubject[Detection]):
    """A detector of transformers. What it is less sure of than its confidence is not found."""

    metrics: ClassVar = ("box_agreement",)
    answers: ClassVar = (Detects,)
    read_data = staticmethod(read_detection_images)

    @override
    def build(self, workload: Any, device: Any) -> Any:
        if workload.settings.runs_by_ultralytics:
            raise ConfigError(
                "Objects are scored for the networks of transformers (rtdetr-r18, rtdetr-r50, "
                f"yolos-tiny, yolos-small), got {workload.settings.model}."
            )
        return _settled(workload, device)

    def detect(self, images: Sequence[FloatArray], classes: Mapping[str, int]) -> list[Boxes]:
        """Return the objects in each image, in its own pixels."""
        from joulelab.workloads.vision_network import detection_processor

        numbers, settings = self._numbers(classes), self.workload.settings
        kind = self.network.config.model_type
        processor = detection_processor(kind, settings.weights, settings.image_size)
        return [
            replace(boxes, labels=np.array([numbers[int(label)] for label in boxes.labels], int))
            for batch in in_batches(images, _DETECTION_BATCH)
            for boxes in self._of(batch, processor)
        ]

    def _of(self, batch: list[FloatArray], processor: Any) -> list[Boxes]:
        from joulelab.workloads import accelerator, formats
        from joulelab.workloads.vision_network import as_pixels

        settings = self.workload.settings
        dtype = formats.storage_dtype(settings.precision)
        pixels = as_pixels(processor, batch).to(self.network.device, dtype)
        with accelerator.computing(settings.precision):
            seen = self.network(pixel_values=pixels)
            require_finite("A detection", seen.logits.float().cpu().numpy())
            found = processor.post_process_object_detection(
                seen,
                threshold=settings.confidence,
                target_sizes=[image.shape[-2:] for image in batch],
            )
        return [_boxes(each) for each in found]

    def _numbers(self, classes: Mapping[str, int]) -> dict[int, int]:
        """Return the data set's number of each class of the network, or one beyond them all."""
        named = {int(label): str(name) for label, name in self.network.config.id2label.items()}
        if classes and not classes.keys() & set(named.values()):
            raise MeasurementError(
                f"The network knows none of the classes of the data set ({', '.join(classes)}); "
                "give weights that do. box_agreement needs no classes."
            )
        beyond = 1 + max(classes.values(), default=-1)
        return {label: classes.get(name, beyond + label) for label, name in named.items()}


def _settled(workload: Any, device: Any) -> Any:
    """Return a network whose batch norms have settled over the same batch whatever its own is."""
    settings = replace(workload.settings, batch=_SETTLING_BATCH)
    return type(workload)(settings).network(device)


def _boxes(found: Mapping[str, Any]) -> Boxes:
    corners, labels, scores = (
        found[name].float().cpu().numpy() for name in ("boxes", "labels", "scores")
    )
    return Boxes(corners_px=corners.reshape(-1, 4), labels=labels.astype(np.int64), scores=scores)


class DiffusionSubject(NetworkSubject[Diffusion]):
    """The pipeline; an image starts from the same noise in every configuration of one seed."""

    metrics: ClassVar = ("ssim",)
    answers: ClassVar = (MakesImages,)
    read_data = staticmethod(read_prompts)

    @override
    def build(self, workload: Any, device: Any) -> Any:
        return workload.load(device)[0]  # whose programs make images

    def make_images(self, prompts: Sequence[str]) -> FloatArray:
        """Draw an image for each prompt."""
        images: FloatArray = self.workload.images(prompts).numpy()
        return images


class DigitsVitSubject(ClassSubject[AnyNetwork]):
    """A network that reads digits, by default the Vision Transformer."""

    metrics: ClassVar = ("accuracy", "class_agreement", "class_divergence")

    @staticmethod
    @override
    def read_data(source: str | None) -> LabelledData:
        require_no_source(source)
        return noisy_held_out_digits()


class DigitsLstmSubject(DigitsVitSubject[DigitsLstm]):
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
            prompts=("",) * _NUM_DRAWN,
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
