"""The networks that the estimator's constants are fitted to; none of them tests it.

What tests it is in network_list.py. Each network here runs at a batch that loads the GPU and at 1.
"""

from collections.abc import Iterator, Mapping

from network_list import llama, of_transformers, pythia
from network_points import Case, Phase, channels_last, of_speech

_OWN = "benchmarks/network_modules.py"
_CALLED = {
    "convolutional": {
        "resnet18": ("resnet18", 256),
        "resnet101": ("resnet101", 64),
        "mobilenet_v2": ("mobilenet_v2", 256),
        "efficientnet_v2_s": ("efficientnet_v2_s", 64),
        "convnext_small": ("convnext_small", 64),
        "vgg11": ("vgg11", 128),
        "densenet169": ("densenet169", 64),
        "regnet_y_8gf": ("regnet_y_8gf", 64),
        "resnext50_32x4d": ("resnext50_32x4d", 128),
        "mnasnet1_0": ("mnasnet1_0", 256),
        "shufflenet_v2_x1_0": ("shufflenet_v2_x1_0", 512),
        "squeezenet1_1": ("squeezenet1_1", 512),
        "cspdarknet53": ("timm:cspdarknet53", 64),
    },
    "encoder": {
        "bert-large": (
            of_transformers(
                "bert",
                hidden_size=1024,
                intermediate_size=4096,
                num_hidden_layers=24,
                num_attention_heads=16,
            ),
            64,
        ),
        "electra-small": ("hf:electra", 256),
        "mpnet-base": ("hf:mpnet", 128),
        "roberta-base": ("hf:roberta?max_position_embeddings=514", 128),
    },
    "vision transformer": {
        "vit_b_16": ("vit_b_16", 128),
        "vit_l_16": ("vit_l_16", 64),
        "deit_tiny": ("timm:deit_tiny_patch16_224", 512),
        "swin_s": ("swin_s", 64),
        "mixer_l16": ("timm:mixer_l16_224", 64),
        "beit_large": ("timm:beit_large_patch16_224", 32),
        "pvt_v2_b2": ("timm:pvt_v2_b2", 64),
        "xcit_small_12": ("timm:xcit_small_12_p16_224", 64),
    },
    "dense": {"fcn_resnet50": ("fcn_resnet50", 16)},
    "video": {"mc3_18": ("mc3_18", 16)},
    "generative": {"pixel-unet": (f"{_OWN}:PixelUnet", 128)},
    "recurrent": {"small-lstm": (f"{_OWN}:SmallLstm", 64)},
}
_LANGUAGE = {
    "gpt2-medium": "gpt2-medium",
    "tinyllama-1.1b": llama(2048, 5632, 22, 32, 4),
    "qwen2.5-1.5b": llama(1536, 8960, 28, 12, 2, kind="qwen2"),
    "pythia-1b": pythia(2048, 16, 8),
    "pythia-160m": pythia(768, 12, 12),
    "bloom-560m": of_transformers("bloom", hidden_size=1024, n_layer=24, n_head=16),
    "mistral-3b": llama(2560, 6912, 32, 20, 20, kind="mistral"),
}
_SPEECH = ("whisper-tiny", "whisper-base")
_ALSO_FP32 = (
    *("resnet18", "mobilenet_v2", "resnext50_32x4d", "bert-large", "vit_b_16", "swin_s"),
    *("pixel-unet", "convnext_small", "small-lstm"),
    *("hubert-base", "grouped-series"),
)
_TRAINED = {
    "resnet101": 64,
    "bert-large": 16,
    "vit_b_16": 64,
    "mobilenet_v2": 128,
    "convnext_small": 32,
    "pixel-unet": 32,
    "densenet169": 32,
    "swin_s": 32,
}
_GRAPHED = ("resnet18", "vit_b_16", "mobilenet_v2")
_LANGUAGE_STEPS: tuple[tuple[Phase, int], ...] = (
    *(("prefill", 8), ("decode", 1), ("prefill", 1), ("decode", 32)),
)


_MORE = {
    "encoder": {
        "t5-small-encoder": (f"{_OWN}:T5Small", 128),
        "deberta-small": (f"{_OWN}:DebertaSmall", 32),
    },
    "speech": {
        "hubert-large": (f"{_OWN}:HubertLarge", 8),
        "hubert-base": (f"{_OWN}:HubertBase", 16),
        "grouped-series": (f"{_OWN}:GroupedSeries", 16),
    },
    "dense": {"segformer-b0": (f"{_OWN}:SegformerB0", 32), "yolos-tiny": (f"{_OWN}:YolosTiny", 16)},
    "vision transformer": {"swin_v2_s": ("swin_v2_s", 32)},
}
_TRAINED_LANGUAGE = {"pythia-160m": 8, "gpt2-medium": 4}
_COMPILED = (
    *("resnet18", "resnet101", "mobilenet_v2", "vgg11", "convnext_small", "densenet169"),
    *("bert-large", "electra-small", "vit_b_16", "deit_tiny", "swin_s", "mixer_l16", "beit_large"),
    *("efficientnet_v2_s", "regnet_y_8gf", "resnext50_32x4d", "mnasnet1_0", "squeezenet1_1"),
    *("pvt_v2_b2", "roberta-base", "shufflenet_v2_x1_0", "cspdarknet53", "xcit_small_12"),
    *("fcn_resnet50", "pixel-unet"),
)
"""In order of what is wanted most."""
_COMPILED_ALONE = ("resnet18", "mobilenet_v2", "vit_b_16", "bert-large", "vgg11", "mixer_l16")
"""Compiled at batch 1, too, in a graph."""
_LSTMS = {
    "lstm-1024": "Lstm1024",
    "lstm-2048": "Lstm2048",
    "lstm-512": "SmallLstm",
    "lstm-1536": "Lstm1536",
}


def fitting_cases() -> list[Case]:
    """Return every case; what shares a network follows each other, what is compiled comes last."""
    return [*_called(_CALLED), *_language(), *_speech(), *_called(_MORE), *_more()]


def channels_last_cases() -> list[Case]:
    """Return convolutional networks whose images have the channels of a pixel adjacent."""
    return channels_last({**_CALLED["convolutional"], **_CALLED["dense"]})


def recurrent_cases() -> Iterator[Case]:
    """Return LSTMs of two layers by width, batch and format; the narrowest is small-lstm."""
    models = {
        name: {"network": name, "family": "recurrent", "model": f"{_OWN}:{model}"}
        for name, model in _LSTMS.items()
    }
    for one in models.values():
        yield from (Case(**one, batch=batch) for batch in (128, 32, 256, 64))
    for one in models.values():
        yield from (Case(**one, batch=batch, precision="fp32") for batch in (128, 32))
    for name in ("lstm-1024", "lstm-2048"):
        yield Case(**models[name], batch=64, phase="train")
    for cells in (64, 192, 256):
        name = f"lstm-series-{cells}"
        one = {"network": name, "family": "recurrent", "model": f"{_OWN}:LstmOfSeries{cells}"}
        for precision in ("fp16", "fp32", "bf16"):
            yield from (Case(**one, batch=batch, precision=precision) for batch in (1024, 64))


def _called(families: Mapping[str, Mapping[str, tuple[str, int]]]) -> Iterator[Case]:
    for family, networks in families.items():
        for name, (model, batch) in networks.items():
            yield from _of_network(name, family, model, batch)


def _of_network(name: str, family: str, model: str, batch: int) -> Iterator[Case]:
    one = {"network": name, "family": family, "model": model}
    yield from (Case(**one, batch=size) for size in (batch, 1))
    if name in _GRAPHED:
        yield from (Case(**one, batch=size, mode="graph") for size in (batch, 1))
    if name in _ALSO_FP32:
        yield from (Case(**one, batch=size, precision="fp32") for size in (batch, 1))
    if name in _TRAINED:
        yield Case(**one, batch=_TRAINED[name], phase="train")


def _language() -> Iterator[Case]:
    for name, model in _LANGUAGE.items():
        for phase, batch in _LANGUAGE_STEPS:
            knobs = {"prompt_tokens": 512, "new_tokens": 64 if phase == "decode" else 0}
            yield Case(
                network=name,
                family="language",
                model=model,
                batch=batch,
                phase=phase,
                knobs=knobs,
            )


def _speech() -> Iterator[Case]:
    shapes: tuple[tuple[Phase, int], ...] = (("encode", 16), ("decode", 1), ("decode", 16))
    for name in _SPEECH:
        yield from (of_speech(name, batch, phase) for phase, batch in shapes)


def _more() -> Iterator[Case]:
    """Yield steps of training of language models, and compiled programs."""
    for name, batch in _TRAINED_LANGUAGE.items():
        knobs = {"prompt_tokens": 512, "new_tokens": 0}
        one = {"network": name, "family": "language", "model": _LANGUAGE[name]}
        yield Case(**one, batch=batch, phase="train", knobs=knobs)
    families = {name: family for family, networks in _CALLED.items() for name in networks}
    for name in _COMPILED:
        model, batch = _CALLED[families[name]][name]
        one = {"network": name, "family": families[name], "model": model}
        yield Case(**one, batch=batch, mode="compiled_launched")
        if name in _COMPILED_ALONE:
            yield Case(**one, batch=1, mode="compiled")
