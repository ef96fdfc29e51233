"""The networks that test the estimator: which ones, at which batch and number format, and how run.

None of them, but those marked as seen, was measured for this project before they were listed here,
so that no constant of the estimator was chosen with an eye on them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from network_list import CONVOLUTIONAL, ENCODERS, LANGUAGE, OTHERS, SPEECH, TRANSFORMERS

Mode = Literal["eager", "graph", "compiled", "compiled_launched"]
"""As the estimator's, and kernels fused by torch.compile but launched one by one."""

Phase = Literal["forward", "prefill", "decode", "encode", "train"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One network at one batch size and number format, run in one way.

    Attributes:
        network: Its published name.
        family: What it counts as when errors are told.
        model: As ``joulelab estimate`` takes it.
        phase: What of the model: a step of ``"decode"`` is for one token of each sample.
        knobs: Settings of the model, as ``joulelab estimate`` takes them.
        seen: Whether it was measured for this project before; left out of errors.
    """

    network: str
    family: str
    model: str
    batch: int
    precision: str = "bf16"
    mode: Mode = "eager"
    phase: Phase = "forward"
    knobs: Mapping[str, int] = field(default_factory=dict)
    seen: bool = False

    @property
    def name(self) -> str:
        """Unique and readable."""
        layout = "_channels_last" if self.knobs.get("channels_last") else ""
        return f"{self.network}_{self.phase}_{self.precision}_b{self.batch}_{self.mode}{layout}"

    @property
    def is_host_bound(self) -> bool:
        """Whether the host is likely to set its pace."""
        is_small = self.batch == 1 or self.phase in ("decode", "train")
        return self.mode == "eager" and is_small


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network, and a batch size that loads the GPU."""

    name: str
    family: str
    model: str
    batch: int


_STRIDE = 7
"""Networks from one to the next: those of a kind stand side by side in lists."""
_NEW_TOKENS = 64
_PROMPT_TOKENS = {"mamba-130m": 64}
"""Prompts of other lengths than 512: PyTorch's own Mamba launches kernels for each token."""

_LSTMS = {
    "lstm-tagger": ("benchmarks/network_modules.py:LstmTagger", (256, 32)),
    "speech-lstm": ("benchmarks/network_modules.py:SpeechLstm", (128, 16)),
    "lstm-series": ("benchmarks/network_modules.py:LstmOfSeries", (1024, 64)),
}
"""With batch sizes that load the GPU more and less."""

_SPEECH_KNOBS = {"new_tokens": _NEW_TOKENS}

_ALSO_FP32_FP16 = (
    *("efficientnet_b0", "resnet152", "bert-base", "deit_small", "swin_t", "convnext_tiny"),
    *("vgg16", "densenet121", "mobilenet_v3_large", "regnet_y_16gf", "distilbert", "roberta-large"),
    *("deeplabv3_resnet50", "diffusion-unet", "stacked-lstm", "segformer-b2"),
)
_LANGUAGE_FP32_FP16 = ("gpt2", "llama-3.2-1b", "pythia-410m")
_TRAINED = {
    "resnet34": 128,
    "bert-base": 32,
    "deit_small": 128,
    "efficientnet_b0": 128,
    "convnext_tiny": 64,
    "swin_t": 64,
    "vgg16": 64,
    "diffusion-unet": 32,
    "stacked-lstm": 64,
    "densenet121": 64,
}
_TRAINED_LANGUAGE = {"gpt2": 8, "qwen3-0.6b": 4, "pythia-410m": 8}
_GRAPHED = ("resnet34", "bert-base", "deit_small", "swin_t", "efficientnet_b0")
_COMPILED = ("distilbert", "vgg16", "deit_small", "mixer_b16", "resnet34")


def all_cases() -> list[Case]:
    """Return every case; any first part of them is a cross-section of all.

    Cases that follow each other share a network where they can, since building one takes time.
    What is compiled comes late: it takes longest.
    """
    networks = list(_networks())
    streams: Sequence[tuple[float, list[list[Case]]]] = (
        (0.0, _round_robin([_main(networks), _language(), _speech()])),
        (0.1, list(_other_formats(networks))),
        (0.1, list(_trained(networks))),
        (0.1, list(_graphed(networks))),
        (0.6, list(_compiled(networks))),
        (0.0, _seen()),
    )
    placed = [
        (first + (1 - first) * (index + 0.5) / len(groups), group)
        for first, groups in streams
        for index, group in enumerate(groups)
    ]
    return [case for _, group in sorted(placed, key=lambda each: each[0]) for case in group]


def across_kinds(cases: Sequence[Case]) -> list[Case]:
    """Return cases so that any first part has networks of all kinds; those of one stay in a row."""
    networks = list(dict.fromkeys(case.network for case in cases))
    mixed = [name for first in range(_STRIDE) for name in networks[first::_STRIDE]]
    return sorted(cases, key=lambda case: mixed.index(case.network))


def recurrent_cases() -> Iterator[Case]:
    """Yield LSTMs in both directions, of other lengths, and of inputs of another width."""
    for name, (model, batches) in _LSTMS.items():
        one = {"network": name, "family": "recurrent", "model": model}
        yield from (Case(**one, batch=batch) for batch in batches)
        yield from (
            Case(**one, batch=batches[0], precision=precision) for precision in ("fp32", "fp16")
        )
        yield Case(**one, batch=batches[1], mode="graph")
        yield Case(**one, batch=batches[1], phase="train")


def channels_last_cases() -> list[Case]:
    """Return convolutional networks whose images have the channels of a pixel adjacent."""
    dense = {
        name: (model, batch)
        for name, (family, model, batch) in OTHERS.items()
        if family == "dense" and ".py:" not in model
    }
    return channels_last({**CONVOLUTIONAL, **dense})


def channels_last(networks: Mapping[str, tuple[str, int]]) -> list[Case]:
    """Return the cases of networks by name: loaded, alone, and in single precision."""
    return [
        Case(
            network=name,
            family="channels last",
            model=model,
            batch=size,
            precision=precision,
            knobs={"channels_last": True},
        )
        for name, (model, batch) in networks.items()
        for precision, size in (("bf16", batch), ("bf16", 1), ("fp32", batch))
    ]


def _networks() -> Iterator[Network]:
    """Yield the networks that are called once per batch, families in turn."""
    groups = (
        [("convolutional", name, *rest) for name, rest in CONVOLUTIONAL.items()],
        [("encoder", name, *rest) for name, rest in ENCODERS.items()],
        [("vision transformer", name, *rest) for name, rest in TRANSFORMERS.items()],
        [(family, name, *rest) for name, (family, *rest) in OTHERS.items()],
    )
    for row in zip_longest(*groups):
        for family, name, model, batch in filter(None, row):
            yield Network(name=str(name), family=str(family), model=str(model), batch=int(batch))


def _case(network: Network, batch: int, **changes: object) -> Case:
    values = {"network": network.name, "family": network.family, "model": network.model}
    return Case(**{**values, "batch": batch, **changes})  # type: ignore[arg-type]


def _main(networks: Iterable[Network]) -> list[list[Case]]:
    return [[_case(each, each.batch), _case(each, 1)] for each in networks]


def _round_robin(streams: Sequence[list[list[Case]]]) -> list[list[Case]]:
    """Merge streams so that each is spread evenly over the whole."""
    placed = [
        ((index + 0.5) / len(stream), group)
        for stream in streams
        for index, group in enumerate(stream)
    ]
    return [group for _, group in sorted(placed, key=lambda each: each[0])]


def _of_language(name: str, batch: int, phase: Phase, **changes: object) -> Case:
    network = Network(name=name, family="language", model=LANGUAGE[name], batch=batch)
    knobs = {
        "prompt_tokens": _PROMPT_TOKENS.get(name, 512),
        "new_tokens": _NEW_TOKENS if phase == "decode" else 0,
    }
    return _case(network, batch, phase=phase, knobs=knobs, **changes)


def _language() -> list[list[Case]]:
    shapes: Sequence[tuple[Phase, int]] = (
        ("prefill", 8),
        ("decode", 1),
        ("prefill", 1),
        ("decode", 32),
    )
    return [[_of_language(name, batch, phase) for phase, batch in shapes] for name in LANGUAGE]


def of_speech(name: str, batch: int, phase: Phase) -> Case:
    """Return a case of a recogniser of speech."""
    return Case(
        network=name, family="speech", model=name, batch=batch, phase=phase, knobs=_SPEECH_KNOBS
    )


def _speech() -> list[list[Case]]:
    shapes: Sequence[tuple[Phase, int]] = (
        ("encode", 16),
        ("decode", 1),
        ("encode", 1),
        ("decode", 16),
    )
    return [[of_speech(name, batch, phase) for phase, batch in shapes] for name in SPEECH]


def _other_formats(networks: Iterable[Network]) -> Iterator[list[Case]]:
    for each in networks:
        if each.name in _ALSO_FP32_FP16:
            batches = [each.batch, 1] if _ALSO_FP32_FP16.index(each.name) % 2 else [each.batch]
            yield [_case(each, batch, precision="fp32") for batch in batches]
            yield [_case(each, each.batch, precision="fp16")]
    for name in _LANGUAGE_FP32_FP16:
        yield [_of_language(name, 8, "prefill", precision="fp32")]
        yield [_of_language(name, 8, "prefill", precision="fp16")]
        yield [_of_language(name, 1, "decode", precision="fp32")]


def _trained(networks: Iterable[Network]) -> Iterator[list[Case]]:
    for each in networks:
        if each.name in _TRAINED:
            yield [_case(each, _TRAINED[each.name], phase="train")]
    for name, batch in _TRAINED_LANGUAGE.items():
        yield [_of_language(name, batch, "train")]


def _graphed(networks: Iterable[Network]) -> Iterator[list[Case]]:
    for each in networks:
        if each.name in _GRAPHED:
            yield [_case(each, batch, mode="graph") for batch in (1, each.batch)]


def _compiled(networks: Iterable[Network]) -> Iterator[list[Case]]:
    for each in networks:
        if each.name in _COMPILED:
            yield [_case(each, 1, mode="compiled")]
            yield [_case(each, each.batch, mode="compiled")]
            yield [_case(each, each.batch, mode="compiled_launched")]


def _seen() -> list[list[Case]]:
    """Return what was measured before, to compare boards and hosts."""
    network = Network(name="resnet50", family="convolutional", model="resnet50", batch=64)
    return [
        [_case(network, batch, precision=precision, seen=True) for batch in (64, 1)]
        for precision in ("fp16", "fp32")
    ]
