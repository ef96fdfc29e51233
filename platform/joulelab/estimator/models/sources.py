"""Where models come from; the first source that knows a plain name has it."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models.base import Model, Source
from joulelab.registry import Registry

SOURCES: Registry[type[Source]] = Registry(
    "source of models",
    {
        "torchvision": "joulelab.estimator.models.torchvision_source:TorchvisionSource",
        "hf": "joulelab.estimator.models.transformers_source:TransformersSource",
        "diffusers": "joulelab.estimator.models.diffusers_source:DiffusersSource",
        "workload": "joulelab.estimator.models.workload_source:WorkloadSource",
        "timm": "joulelab.estimator.models.timm_source:TimmSource",
    },
)
"""Sources by the prefix under which a name can ask for them: ``timm:resnet50``."""

# A plain name must not run a workload by surprise: "llama" there is a measurement's name.
_PREFIXED_ONLY = ("workload",)
_MOST_HINTS = 3


@cache
def source(prefix: str) -> Source:
    """Return the source called ``prefix``.

    Raises:
        UnknownNameError: If there is none.
    """
    return SOURCES[prefix]()


def model_names() -> Mapping[str, tuple[str, ...]]:
    """Return the names that can be asked for, by source, as :func:`find_model` takes them."""
    return {prefix: _names(prefix) for prefix in SOURCES}


def find_model(name: str) -> Model:
    """Return the model called ``name``.

    Args:
        name: ``SOURCE:NAME``; a plain name, looked for in the sources in their order; or
            ``PATH.py:CLASS`` of a file of the user's, which is executed.

    Raises:
        UnknownNameError: If no source knows it; says which come close.
        ConfigError: If a user's file fails.
    """
    found, rest = locate(name)
    return found.find(rest)


def locate(name: str) -> tuple[Source, str]:
    """Return the source that has ``name``, and the name within it.

    Raises:
        UnknownNameError: If no source knows it; says which come close.
    """
    if ".py:" in name:
        from joulelab.estimator.models.file_source import FileSource

        return FileSource(), name
    if name.endswith(".py"):
        raise ConfigError(f"A file needs the class to build: {name}:CLASS, got {name!r}.")
    prefix, separator, rest = name.partition(":")
    if separator:
        return source(prefix), rest
    for prefix in SOURCES:
        if prefix not in _PREFIXED_ONLY and name in source(prefix).names():
            return source(prefix), name
    raise _unknown_model(name)


def _names(prefix: str) -> tuple[str, ...]:
    names = source(prefix).names()
    return tuple(f"{prefix}:{name}" for name in names) if _needs_prefix(prefix) else tuple(names)


def _needs_prefix(prefix: str) -> bool:
    return prefix in (*_PREFIXED_ONLY, "timm")


def _unknown_model(name: str) -> UnknownNameError:
    known = {shown: shown for names in model_names().values() for shown in names}
    for shown in tuple(known):
        known.setdefault(shown.rpartition(":")[2], shown)
    close = dict.fromkeys(
        known[hint] for hint in get_close_matches(name.lower(), known, n=_MOST_HINTS)
    )
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownNameError(
        f"Unknown model {name!r}.{hint} Known are those of torchvision, transformers "
        "(hf:TYPE?option=value), diffusers, timm (timm:NAME), joulelab's workloads "
        "(workload:NAME), and a class of your own (path.py:Class); `joulelab models` lists them."
    )
