"""Networks that no source of models lists, as classes that both the estimator and PyTorch take.

``benchmarks/network_modules.py:T5Encoder`` names one. ``example_inputs`` gives the shapes of its
inputs; whoever runs it fills them.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional
from transformers import (
    DebertaV2Config,
    DebertaV2Model,
    DetrConfig,
    DetrForObjectDetection,
    HubertConfig,
    HubertModel,
    ResNetConfig,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    T5Config,
    T5EncoderModel,
    Wav2Vec2Config,
    Wav2Vec2Model,
    YolosConfig,
    YolosForObjectDetection,
)

_TOKENS = 256


def _tokens(batch: int, length: int = _TOKENS) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.empty(batch, length, dtype=torch.long)}


def _images(batch: int, height: int, width: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.empty(batch, 3, height, width)}


class _Wrapped(nn.Module):
    """A network of transformers; returns the first of its results."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """Return the first result."""
        result: torch.Tensor = self.network(**inputs)[0]
        return result


class T5Encoder(_Wrapped):
    """The encoder of google-t5/t5-base."""

    unit: ClassVar = "sequence"

    def __init__(self, width: int = 768, layers: int = 12) -> None:
        config = T5Config(d_model=width, d_ff=4 * width, num_layers=layers, num_heads=width // 64)
        super().__init__(T5EncoderModel(config))

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return sequences of 256 tokens."""
        return _tokens(batch)


class Deberta(_Wrapped):
    """microsoft/deberta-v3-base, whose attention looks at relative positions (arXiv:2111.09543)."""

    unit: ClassVar = "sequence"

    def __init__(self, layers: int = 12) -> None:
        config = DebertaV2Config(
            hidden_size=768,
            intermediate_size=3072,
            num_hidden_layers=layers,
            num_attention_heads=12,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=256,
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
        )
        super().__init__(DebertaV2Model(config))

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return sequences of 256 tokens."""
        return _tokens(batch)


class T5Small(T5Encoder):
    """The encoder of google-t5/t5-small."""

    def __init__(self) -> None:
        super().__init__(width=512, layers=6)


class DebertaSmall(Deberta):
    """Half as deep, as microsoft/deberta-v3-small."""

    def __init__(self) -> None:
        super().__init__(layers=6)


class Segformer(_Wrapped):
    """nvidia/segformer-b2: semantic segmentation of 512 by 512 pixels in 150 classes."""

    unit: ClassVar = "image"

    def __init__(self, width: int = 64, depths: Sequence[int] = (3, 4, 6, 3)) -> None:
        config = SegformerConfig(
            hidden_sizes=[width, 2 * width, 5 * width, 8 * width],
            depths=list(depths),
            decoder_hidden_size=12 * width,
            num_labels=150,
        )
        super().__init__(SegformerForSemanticSegmentation(config))

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return images of 512 by 512."""
        return _images(batch, 512, 512)


class SegformerB0(Segformer):
    """nvidia/segformer-b0, with a decoder of 384 channels rather than 256."""

    def __init__(self) -> None:
        super().__init__(width=32, depths=(2, 2, 2, 2))


class Detr(_Wrapped):
    """facebook/detr-resnet-50 (arXiv:2005.12872), with the ResNet of transformers."""

    unit: ClassVar = "image"

    def __init__(self, num_queries: int = 100) -> None:
        backbone = ResNetConfig(out_features=["stage4"])
        config = DetrConfig(
            backbone_config=backbone,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            num_queries=num_queries,
            num_labels=91,
        )
        super().__init__(DetrForObjectDetection(config))

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return images of 800 by 1066."""
        return _images(batch, 800, 1066)


class Yolos(_Wrapped):
    """hustvl/yolos-base (arXiv:2106.00666) on 512 by 864 pixels."""

    unit: ClassVar = "image"

    def __init__(self, width: int = 768) -> None:
        config = YolosConfig(hidden_size=width, intermediate_size=4 * width, image_size=[512, 864])
        super().__init__(YolosForObjectDetection(config))

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return images of 512 by 864."""
        return _images(batch, 512, 864)


class YolosTiny(Yolos):
    """A quarter as wide."""

    def __init__(self) -> None:
        super().__init__(width=192)


class _OfSound(_Wrapped):
    """A network of transformers that takes sound."""

    unit: ClassVar = "clip"

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return 10 s at 16 kHz."""
        return {"input_values": torch.empty(batch, 160_000)}


class Wav2Vec2(_OfSound):
    """facebook/wav2vec2-base on 10 s of sound."""

    def __init__(self, layers: int = 12) -> None:
        super().__init__(Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=layers)))


class HubertLarge(_OfSound):
    """facebook/hubert-large-ll60k on 10 s of sound: normalises its sound per layer."""

    def __init__(self, layers: int = 24) -> None:
        config = HubertConfig(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=layers,
            num_attention_heads=16,
            feat_extract_norm="layer",
            conv_bias=True,
            do_stable_layer_norm=True,
        )
        super().__init__(HubertModel(config))


class HubertBase(_OfSound):
    """facebook/hubert-base-ls960 on 10 s of sound."""

    def __init__(self, layers: int = 12) -> None:
        super().__init__(HubertModel(HubertConfig(num_hidden_layers=layers)))


class GroupedSeries(nn.Module):
    """Convolutions along 499 steps, by channels, groups, and window; each reads what is passed."""

    unit: ClassVar = "sequence"
    shapes = (
        *((width, groups, 128) for width, groups in ((768, 24), (768, 16), (640, 10), (1024, 16))),
        *((768, groups, window) for groups in (24, 16, 8) for window in (3, 31)),
        *((width, 8, 128) for width in (768, 1024)),
    )

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, width, window, padding=window // 2, groups=groups)
            for width, groups, window in self.shapes
        )

    def forward(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Return what each makes of as many channels as it takes."""
        return [one(values[:, : one.in_channels].contiguous()) for one in self.convolutions]

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return as many channels as the widest takes."""
        return {"values": torch.empty(batch, 1024, 499)}


class StackedLstm(nn.Module):
    """A language model of four LSTM layers."""

    unit: ClassVar = "sequence"

    def __init__(self, width: int = 1536, layers: int = 4, vocab_size: int = 10_000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the scores of every next token."""
        scores: torch.Tensor = self.head(self.lstm(self.embedding(input_ids))[0])
        return scores

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return sequences of 256 tokens."""
        return _tokens(batch)


class SmallLstm(StackedLstm):
    """Two LSTM layers, of a third of the width."""

    def __init__(self) -> None:
        super().__init__(width=512, layers=2)


class Lstm1024(StackedLstm):
    """Two LSTM layers of 1024 cells."""

    def __init__(self) -> None:
        super().__init__(width=1024, layers=2)


class Lstm1536(StackedLstm):
    """Two LSTM layers of 1536 cells."""

    def __init__(self) -> None:
        super().__init__(width=1536, layers=2)


class Lstm2048(StackedLstm):
    """Two LSTM layers of 2048 cells."""

    def __init__(self) -> None:
        super().__init__(width=2048, layers=2)


class LstmTagger(nn.Module):
    """Marks every token of a sentence, read in both directions (Huang et al., arXiv:1508.01991)."""

    unit: ClassVar = "sentence"

    def __init__(self, width: int = 768, cells: int = 512, tags: int = 17) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30_000, width)
        self.lstm = nn.LSTM(width, cells, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * cells, tags)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the scores of the tags of every token."""
        scores: torch.Tensor = self.head(self.lstm(self.embedding(input_ids))[0])
        return scores

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return sentences of 128 tokens."""
        return _tokens(batch, 128)


class LstmOfSeries(nn.Module):
    """Layers of LSTMs over what was measured at each step, and a linear layer over their states."""

    unit: ClassVar = "sequence"
    inputs, cells, layers, results, steps = 7, 128, 1, 24, 336

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(self.inputs, self.cells, self.layers, batch_first=True)
        self.head = nn.Linear(self.cells, self.results)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return results of every step."""
        results: torch.Tensor = self.head(self.lstm(values)[0])
        return results

    @classmethod
    def example_inputs(cls, batch: int) -> dict[str, torch.Tensor]:
        """Return two weeks of hours, or 4 s of speech."""
        return {"values": torch.empty(batch, cls.steps, cls.inputs)}


class LstmOfSeries64(LstmOfSeries):
    """Half as many cells."""

    cells = 64


class LstmOfSeries192(LstmOfSeries):
    """Half as many again."""

    cells = 192


class LstmOfSeries256(LstmOfSeries):
    """Twice as many."""

    cells = 256


class SpeechLstm(LstmOfSeries):
    """Five wide layers over 80 bands of 400 windows of speech."""

    inputs, cells, layers, results, steps = 80, 1024, 5, 128, 400


class _Residual(nn.Module):
    """Two convolutions, told the time between them."""

    def __init__(self, inputs: int, outputs: int, time_width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time_width, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the images with what was added to them."""
        hidden = self.conv1(functional.silu(self.norm1(images)))
        hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        skipped: torch.Tensor = self.skip(images)
        return skipped + self.conv2(functional.silu(self.norm2(hidden)))


class _Attention(nn.Module):
    """Attention of all pixels to all, in heads of 64."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.project = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the images with what was attended to."""
        batch, channels, height, width = images.shape
        shape = (batch, 3, channels // 64, 64, height * width)
        query, key, value = self.project(self.norm(images)).view(shape).mT.unbind(1)
        attended = functional.scaled_dot_product_attention(query, key, value)
        seen: torch.Tensor = images + self.out(attended.mT.reshape(images.shape))
        return seen


class DiffusionUnet(nn.Module):
    """The noise predictor of a denoising diffusion model on 64 by 64 pixels.

    Four levels of two residual blocks, with attention at 16 by 16 pixels and below, after
    arXiv:2105.05233.
    """

    unit: ClassVar = "image"

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        widths = [width * factor for factor in (1, 2, 3, 4)]
        time_width = 4 * width
        self.time = nn.Sequential(nn.Linear(width, time_width), nn.SiLU())
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        kept, channels = [width], width
        for level, outputs in enumerate(widths):
            for _ in range(2):
                self.down.append(_level(channels, outputs, time_width, attends=level >= 2))
                kept.append(channels := outputs)
        for level, outputs in reversed(list(enumerate(widths))):
            for _ in range(2):
                inputs = channels + kept.pop()
                self.up.append(_level(inputs, outputs, time_width, attends=level >= 2))
                channels = outputs
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the noise in the images."""
        told, hidden, kept = self.time(time), self.first(images), []
        for index, level in enumerate(self.down):
            hidden = _run(level, hidden, told)
            kept.append(hidden)
            if index % 2 and index < len(self.down) - 1:
                hidden = functional.avg_pool2d(hidden, 2)
        for index, level in enumerate(self.up):
            if index and index % 2 == 0:
                hidden = functional.interpolate(hidden, scale_factor=2.0)
            hidden = _run(level, torch.cat([hidden, kept.pop()], 1), told)
        noise: torch.Tensor = self.last(functional.silu(hidden))
        return noise

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return images and embedded times."""
        return {"images": torch.empty(batch, 3, 64, 64), "time": torch.empty(batch, 192)}


class PixelUnet(DiffusionUnet):
    """The same on 32 by 32 pixels, two thirds as wide."""

    def __init__(self) -> None:
        super().__init__(width=128)

    @staticmethod
    def example_inputs(batch: int) -> dict[str, torch.Tensor]:
        """Return images and embedded times."""
        return {"images": torch.empty(batch, 3, 32, 32), "time": torch.empty(batch, 128)}


def _level(inputs: int, outputs: int, time_width: int, *, attends: bool) -> nn.ModuleList:
    parts: list[nn.Module] = [_Residual(inputs, outputs, time_width)]
    return nn.ModuleList([*parts, _Attention(outputs)] if attends else parts)


def _run(level: Any, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    residual, *attention = level
    images = residual(images, time)
    for part in attention:
        images = part(images)
    return images
