"""Networks of transformers, from their configuration alone.

``hf:llama?hidden_size=2048&num_hidden_layers=16`` is the type of a configuration of transformers
with some of its values; the presets are published networks under their own names.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from json import JSONDecodeError, loads
from typing import Any
from urllib.parse import parse_qsl

import torch
from typing_extensions import override

from joulelab.core.process import quiet
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Source
from joulelab.estimator.models.language import LanguageModel, SpeechModel
from joulelab.estimator.models.network import NetworkModel, call_by_name
from joulelab.registry import unknown_name
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.bert import CONFIGS
from joulelab.workloads.classification import VIT_GEOMETRIES
from joulelab.workloads.detection import DETECTORS
from joulelab.workloads.llama import GEOMETRIES
from joulelab.workloads.whisper import GEOMETRIES as WHISPER_GEOMETRIES

ensure_torchvision()

from huggingface_hub.errors import StrictDataclassError  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    AutoModelForSpeechSeq2Seq,
    PreTrainedConfig,
)
from transformers.models.auto import configuration_auto  # noqa: E402
from transformers.models.auto import modeling_auto as tables  # noqa: E402


def _rope(theta: float) -> Mapping[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _values(
    model_type: str, widths: tuple[int, int, int], *heads: int, **others: Any
) -> tuple[str, Mapping[str, Any]]:
    """Return a network of (hidden, feed-forward, layers), of query and maybe key-value heads."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers")
    head_names = ("num_attention_heads", "num_key_value_heads")[: len(heads)]
    values = dict(zip((*names, *head_names), (*widths, *heads), strict=True))
    return model_type, {**values, **others}


def _gpt2_values(width: int, layers: int, heads: int) -> tuple[str, Mapping[str, Any]]:
    return "gpt2", {"n_embd": width, "n_layer": layers, "n_head": heads}


def _detr_values(depth: int) -> tuple[str, Mapping[str, Any]]:
    backbone = {"model_type": "timm_backbone", "backbone": f"resnet{depth}"}
    stages = {"features_only": True, "out_indices": [1, 2, 3, 4]}
    return "detr", {"num_labels": 91, "backbone_config": {**backbone, **stages}}


_QWEN = {"max_position_embeddings": 32768, "rope_parameters": _rope(1000000.0)}

PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: ("llama", values) for name, values in GEOMETRIES.items() if name != "tiny"},
    # arXiv:2407.21783, table 3.
    "llama-3-70b": _values(
        *("llama", (8192, 28672, 80), 64, 8),
        vocab_size=128256,
        max_position_embeddings=8192,
        rope_parameters=_rope(500000.0),
    ),
    # mistralai/Mistral-7B-v0.1 (arXiv:2310.06825, table 1).
    "mistral-7b": _values("mistral", (4096, 14336, 32), 32, 8, vocab_size=32000),
    # mistralai/Mixtral-8x7B-v0.1 (arXiv:2401.04088, table 1).
    "mixtral-8x7b": _values(
        *("mixtral", (4096, 14336, 32), 32, 8),
        vocab_size=32000,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=32768,
        rope_parameters=_rope(1000000.0),
    ),
    # Qwen/Qwen2.5-0.5B and Qwen2.5-7B (arXiv:2412.15115).
    "qwen2.5-0.5b": _values(
        "qwen2", (896, 4864, 24), 14, 2, vocab_size=151936, tie_word_embeddings=True, **_QWEN
    ),
    "qwen2.5-7b": _values("qwen2", (3584, 18944, 28), 28, 4, vocab_size=152064, **_QWEN),
    # Qwen/Qwen3-8B (arXiv:2505.09388).
    "qwen3-8b": _values(
        "qwen3", (4096, 12288, 36), 32, 8, vocab_size=151936, head_dim=128, **_QWEN
    ),
    # The four sizes of openai-community/gpt2.
    "gpt2": _gpt2_values(768, 12, 12),
    "gpt2-medium": _gpt2_values(1024, 24, 16),
    "gpt2-large": _gpt2_values(1280, 36, 20),
    "gpt2-xl": _gpt2_values(1600, 48, 25),
    **{name: ("bert", values) for name, values in CONFIGS.items() if name != "tiny"},
    # facebook/detr-resnet-50 and detr-resnet-101 (arXiv:2005.12872, table 1).
    **{f"detr-resnet-{depth}": _detr_values(depth) for depth in (50, 101)},
    **{
        name: (str(values["model_type"]), {k: v for k, v in values.items() if k != "model_type"})
        for name, values in {**DETECTORS, **VIT_GEOMETRIES}.items()
        if name != "tiny"
    },
    # openai/whisper-*; large is large-v3.
    **{
        f"whisper-{name.removesuffix('-v3')}": ("whisper", values)
        for name, values in WHISPER_GEOMETRIES.items()
        if name != "toy"
    },
}
"""Configurations by name: the type, and what differs from its defaults."""


_Make = Callable[[str, PreTrainedConfig], Model]
_CONFIG_TYPES = frozenset(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])
_TOKENS = 128
_IMAGE_SIZE = 224
_NUM_CLASSES = 1000
_DETECTION_SIZE = 640  # a multiple of all strides; published latencies of detectors are at it


class TransformersSource(Source):
    """Presets, and any configuration of a kind that it knows how to feed."""

    @override
    def names(self) -> Sequence[str]:
        return tuple(sorted(PRESETS))

    @override
    def find(self, name: str) -> Model:
        model_type, _, query = name.partition("?")
        defaults: Mapping[str, Any] = {}
        if model_type in PRESETS:
            model_type, defaults = PRESETS[model_type]
        elif model_type not in _CONFIG_TYPES:
            known = [*PRESETS, *_CONFIG_TYPES]
            raise unknown_name("model of transformers", model_type, known)
        config = _config(model_type, {**defaults, **_options(name, query)})
        for kind, make in _KINDS:
            if model_type in kind:
                return make(name, config)
        raise ConfigError(
            f"hf:{name} is no language model, text encoder, image classifier, detector or speech "
            "recogniser; build it in a file of your own and ask for path.py:Class."
        )


def _options(name: str, query: str) -> dict[str, Any]:
    """Return the values after the question mark, each read as JSON or else as text."""
    pairs = parse_qsl(query, keep_blank_values=True)
    if query and not pairs:
        raise ConfigError(f"Values of a configuration are option=value&option=value, got {name!r}.")
    return {option: _value(text) for option, text in pairs}


def _value(text: str) -> Any:
    try:
        return loads(text)
    except JSONDecodeError:
        return text


def _config(model_type: str, values: Mapping[str, Any]) -> PreTrainedConfig:
    known = AutoConfig.for_model(model_type)
    for option, value in values.items():
        if not hasattr(known, option):
            raise unknown_name(f"option of hf:{model_type}", option, known.to_dict())
        usual = getattr(known, option)
        if isinstance(value, int) and value < 0 < (usual if isinstance(usual, int) else 0):
            raise ConfigError(f"{option} of hf:{model_type} must be at least 0, got {value}.")
    try:
        return AutoConfig.for_model(model_type, **values)
    except (StrictDataclassError, TypeError, ValueError) as error:
        raise ConfigError(f"hf:{model_type} cannot take {dict(values)}: {error}") from error


def _generating(model: type[LanguageModel] | type[SpeechModel], auto: Any) -> _Make:
    return lambda name, config: model(title=name, config=config, build=_builder(auto, config))


def _encoder(name: str, config: PreTrainedConfig) -> Model:
    longest = getattr(config, "max_position_embeddings", _TOKENS)
    return NetworkModel(
        title=name,
        unit="sequence",
        knobs={"tokens": min(_TOKENS, longest)},
        build=lambda _: _builder(AutoModel, config)(),
        make_inputs=_tokens,
        call=call_by_name,
    )


def _tokens(batch: int, knobs: Knobs) -> Mapping[str, torch.Tensor]:
    tokens = int(str(knobs["tokens"]))
    return {"input_ids": torch.empty(batch, tokens, dtype=torch.long)}


def _detector(name: str, config: PreTrainedConfig) -> Model:
    build = _builder(AutoModelForObjectDetection, config)
    made = _of_images(name, config, _DETECTION_SIZE, lambda _: build())
    return replace(made, untrainable="its loss needs boxes to compare with")


def _image_classifier(name: str, config: PreTrainedConfig) -> Model:
    size = getattr(config, "image_size", None) or _IMAGE_SIZE

    def build(knobs: Knobs) -> torch.nn.Module:
        changed = deepcopy(config)
        changed.num_labels = _NUM_CLASSES
        if hasattr(changed, "image_size"):
            changed.image_size = knobs["image_size"]
        return _builder(AutoModelForImageClassification, changed)()

    return _of_images(name, config, size if isinstance(size, int) else size[0], build)


def _of_images(
    name: str, config: PreTrainedConfig, size: int, build: Callable[[Knobs], torch.nn.Module]
) -> NetworkModel:
    channels = getattr(config, "num_channels", 3)

    def make_inputs(batch: int, knobs: Knobs) -> Mapping[str, torch.Tensor]:
        side = int(str(knobs["image_size"]))
        return {"pixel_values": torch.empty(batch, channels, side, side)}

    return NetworkModel(
        title=name,
        unit="image",
        knobs={"image_size": size},
        build=build,
        make_inputs=make_inputs,
        call=call_by_name,
    )


def _builder(auto: Any, config: PreTrainedConfig) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        with quiet("transformers"):
            network: torch.nn.Module = auto.from_config(config)
        return network

    return build


# The first kind that has the type decides: BERT could also be run as a language model.
_KINDS: Sequence[tuple[Mapping[str, object], _Make]] = (
    (tables.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, _image_classifier),
    (tables.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES, _detector),
    (
        tables.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
        _generating(SpeechModel, AutoModelForSpeechSeq2Seq),
    ),
    (tables.MODEL_FOR_MASKED_LM_MAPPING_NAMES, _encoder),
    (tables.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, _generating(LanguageModel, AutoModelForCausalLM)),
)
