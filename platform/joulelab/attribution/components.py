"""Which component and which layer of a network an operator belongs to, by its module's path."""

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple, get_args

from joulelab.tracing.program import (
    ALL_REDUCE,
    KV_CACHE,
    LINKS_AWAKE,
    WAITING,
    Kind,
    Operator,
    Stage,
    region_of,
)

Component = Literal[
    "embedding",
    "attention projections",
    "attention core",
    "KV cache",
    "feed-forward",
    "normalisation",
    "convolution",
    "recurrence",
    "activation",
    "residual",
    "output head",
    "sampling",
    "optimiser",
    "communication",
    "waiting",
    "links awake",
    "other",
]
"""Parts of a network, in the order in which they are shown."""

COMPONENTS: tuple[str, ...] = get_args(Component)

_ATTENTION = re.compile(r"(^|[._])(\w*attn\d*|\w*attention)(\.|$)", re.IGNORECASE)
_NORM = re.compile(r"norm|(^|\.)ln(_\w+|\d+)?$", re.IGNORECASE)
_FEED_FORWARD = re.compile(
    r"(^|\.)(mlp|ffn?|feed_?forward|fc_?\d+|intermediate|experts?|linear\d)(\.|$)|\.output(\.|$)"
)
_HEAD = re.compile(r"(^|\.)(\w*head\w*|classifier|qa_outputs|score|logits|fc|embed_out)(\.|$)")
_EMBEDDING = re.compile(
    r"embeddings?(\.|$)|embed_(tokens|positions)|patch_embed|(^|\.)w[tp]e(\.|$)|time_proj"
)
_RECURRENT = re.compile(r"(^|\.)(lstm|gru|rnn)(\.|$)")
_LAYER = re.compile(r"^(.*?\.)?\d+(?=\.|$)")
_SAMPLING = frozenset(
    ("argmax", "multinomial", "topk", "sort", "cumsum", "exponential_", "_softmax", "softmax")
)

_ACTIVATIONS = frozenset(("relu", "silu", "gelu", "tanh", "sigmoid", "hardtanh", "leaky_relu"))


class _Called(NamedTuple):
    """What of an operator tells its component."""

    module: str
    name: str
    kind: Kind
    stage: Stage


_Rule = tuple[Component, Callable[[_Called, str], object]]
# The first that holds decides.
_RULES: tuple[_Rule, ...] = (
    ("optimiser", lambda operator, _: operator.stage == "optimizer"),
    ("communication", lambda operator, _: operator.name == ALL_REDUCE),
    ("waiting", lambda operator, _: operator.name == WAITING),
    ("links awake", lambda operator, _: operator.name == LINKS_AWAKE),
    ("normalisation", lambda operator, path: operator.kind == "norm" or _NORM.search(_leaf(path))),
    ("attention projections", lambda operator, path: _projects(operator, path)),
    ("attention core", lambda _, path: _ATTENTION.search(path) or "rotary" in path),
    ("output head", lambda _, path: _HEAD.search(path)),
    ("embedding", lambda _, path: _EMBEDDING.search(path)),
    ("convolution", lambda operator, path: operator.kind == "conv" or "conv" in _leaf(path)),
    ("feed-forward", lambda _, path: _FEED_FORWARD.search(path)),
    ("recurrence", lambda operator, path: "rnn" in operator.name or _RECURRENT.search(path)),
    ("activation", lambda operator, _: operator.name.strip("_") in _ACTIVATIONS),
    ("residual", lambda operator, path: operator.name in ("add", "add_") and _ends(path)),
    ("sampling", lambda operator, path: not path and operator.name in _SAMPLING),
    ("other", lambda _, __: True),
)


def component_of(operator: Operator) -> str:
    """Return the component of an operator: a :data:`Component`, or the user's region around it."""
    return _component(_Called(operator.module, operator.name, operator.kind, operator.stage))


def layer_of(operator: Operator) -> str:
    """Return the path of the layer, up to its first number; empty outside of numbered layers."""
    found = _LAYER.match(operator.module)
    return found[0] if found else ""


@cache  # each is asked for again in every table and figure, in every phase
def _component(called: _Called) -> str:
    region = region_of(called.module)
    if region == KV_CACHE:
        return "KV cache"
    if region:
        return region
    path = called.module
    return next(component for component, holds in _RULES if holds(called, path))


def _ends(path: str) -> bool:
    """Whether a module is a numbered layer itself."""
    return re.search(r"\.\d+$", path) is not None


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _projects(operator: _Called, path: str) -> bool:
    """Whether matrix work is within an attention module, and not the attention itself."""
    found = list(_ATTENTION.finditer(path))
    return bool(found) and operator.kind in ("gemm", "conv") and bool(path[found[-1].end() :])
