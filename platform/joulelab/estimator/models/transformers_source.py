"""Networks of transformers, from their configuration alone.

``hf:llama?hidden_size=2048&num_hidden_layers=16`` is the type of a configuration of transformers
with some of its values; the presets are published networks under their own names.

Imports torch, so it is imported only by functions that find or trace a model.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from json import JSONDecodeError, loads
from typing import Any
from urllib.parse import parse_qsl

import torch
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Source
from joulelab.estimator.models.fake_trace import quiet
from joulelab.estimator.models.language import LanguageModel
from joulelab.estimator.models.network import NetworkModel, call_by_name
from joulelab.estimator.models.presets import PRESETS
from joulelab.estimator.models.speech import SpeechModel
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision
from joulelab.registry import unknown_name

ensure_torchvision()

from transformers import (  # noqa: E402
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForSpeechSeq2Seq,
    PreTrainedConfig,
)
from transformers.models.auto import configuration_auto  # noqa: E402
from transformers.models.auto import modeling_auto as tables  # noqa: E402

_CONFIG_TYPES = frozenset(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])
_TOKENS = 128
_IMAGE_SIZE = 224
_NUM_CLASSES = 1000


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
            f"hf:{name} is no language model, text encoder, image classifier or speech "
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
    for option in values:
        if not hasattr(known, option):
            raise unknown_name(f"option of hf:{model_type}", option, known.to_dict())
    try:
        return AutoConfig.for_model(model_type, **values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"hf:{model_type} cannot take {dict(values)}: {error}") from error


def _language(name: str, config: PreTrainedConfig) -> Model:
    return LanguageModel(title=name, config=config, build=_builder(AutoModelForCausalLM, config))


def _speech(name: str, config: PreTrainedConfig) -> Model:
    return SpeechModel(title=name, config=config, build=_builder(AutoModelForSpeechSeq2Seq, config))


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


def _image_classifier(name: str, config: PreTrainedConfig) -> Model:
    size = getattr(config, "image_size", None) or _IMAGE_SIZE
    channels = getattr(config, "num_channels", 3)

    def build(knobs: Knobs) -> torch.nn.Module:
        changed = deepcopy(config)
        changed.num_labels = _NUM_CLASSES
        if hasattr(changed, "image_size"):
            changed.image_size = knobs["image_size"]
        return _builder(AutoModelForImageClassification, changed)()

    def make_inputs(batch: int, knobs: Knobs) -> Mapping[str, torch.Tensor]:
        side = int(str(knobs["image_size"]))
        return {"pixel_values": torch.empty(batch, channels, side, side)}

    return NetworkModel(
        title=name,
        unit="image",
        knobs={"image_size": size if isinstance(size, int) else size[0]},
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
_KINDS: Sequence[tuple[Mapping[str, object], Callable[[str, PreTrainedConfig], Model]]] = (
    (tables.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, _image_classifier),
    (tables.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES, _speech),
    (tables.MODEL_FOR_MASKED_LM_MAPPING_NAMES, _encoder),
    (tables.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, _language),
)
