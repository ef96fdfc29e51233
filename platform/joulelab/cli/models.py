"""``joulelab models``: the models that can be estimated, and power models learned from runs."""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Annotated, Any

import tyro
from rich.columns import Columns
from rich.console import RenderableType
from rich.text import Text

from joulelab.cli.terminal import Printing
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

SUBCOMMANDS = {
    "train": "joulelab.cli.power_models:Train",
    "evaluate": "joulelab.cli.power_models:Evaluate",
    "predict": "joulelab.cli.power_model_answers:Predict",
    "use": "joulelab.cli.power_model_answers:Predict",
    "sweep": "joulelab.cli.power_model_answers:Sweep",
    "register": "joulelab.cli.power_models:Register",
    "trace train": "joulelab.cli.trace_models:Train",
    "trace evaluate": "joulelab.cli.trace_models:Evaluate",
    "trace predict": "joulelab.cli.trace_models:Predict",
    "trace use": "joulelab.cli.trace_models:Predict",
    "trace register": "joulelab.cli.trace_models:Register",
}
"""What may be done with power models; any other word filters the list of networks."""
_TRACE = "trace"
_SOURCES = {
    "torchvision": "torchvision, by name",
    "hf": "transformers, by name or hf:TYPE?option=value",
    "diffusers": "pipelines of diffusers",
    "yolo": "YOLOv5 and YOLOv8, before overlapping boxes are suppressed",
    "workload": "joulelab's own workloads",
    "timm": "timm:NAME",
}
_MOST = 200
_OF_TRACES = tuple(name.split()[1] for name in SUBCOMMANDS if name.startswith(f"{_TRACE} "))
_OF_RUNS = tuple(name for name in SUBCOMMANDS if not name.startswith(f"{_TRACE} "))
_MORE = (
    f"Power models learned from runs: joulelab models {'|'.join(_OF_RUNS)} --help.\n\n"
    f"Of power over time, from recordings: joulelab models {_TRACE} {'|'.join(_OF_TRACES)} --help."
)


def parse(arguments: Sequence[str]) -> Any:
    """Read the command line, without a subcommand that of the list of networks."""
    words = list(arguments)
    chosen = _chosen(words)
    return tyro.cli(
        _command(SUBCOMMANDS[chosen]) if chosen else Models,
        args=words[len(chosen.split()) :],
        prog=f"joulelab models {chosen}".strip(),
        description=None if chosen else f"{(Models.__doc__ or '').splitlines()[0]}\n\n{_MORE}",
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _command(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _chosen(words: Sequence[str]) -> str:
    if list(words[:1]) != [_TRACE] or "--help" in words[1:2]:
        return words[0] if words and words[0] in SUBCOMMANDS else ""
    chosen = " ".join(words[:2])
    if chosen not in SUBCOMMANDS:
        raise ConfigError(
            f"joulelab models {_TRACE} must be followed by one of {', '.join(_OF_TRACES)}, got "
            f"{' '.join(words[1:2]) or 'nothing'!r}."
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Models(Printing):
    """List the models that can be estimated; besides them, any class: path.py:Class.

    Such a file of yours is executed.
    """

    filter: Annotated[str, tyro.conf.Positional] = ""  # Only those whose name holds this text.
    source: str | None = None  # Only those of one source.

    def run(self) -> int:
        """Print the names; 1 if none is left."""
        found = self.chosen()
        self.show(found, lambda: _shown(found))
        if any(found.values()):
            return 0
        print(f"joulelab models: {self._nothing()}", file=sys.stderr)
        return 1

    def _nothing(self) -> str:
        """Say that no name holds the text, and which parts of names come close to it."""
        names = (name for names in replace(self, filter="").chosen().values() for name in names)
        parts = {part for name in names for part in re.split(r"[^a-z0-9.]+", name.lower())}
        close = get_close_matches(self.filter.lower(), parts)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        return f"No name of a model holds {self.filter!r}.{hint}"

    def chosen(self) -> Mapping[str, Sequence[str]]:
        """Return the names that are asked for, by source."""
        from joulelab.estimator.models import model_names

        known = model_names()
        if self.source is not None and self.source not in known:
            raise unknown_name("source of models", self.source, known)
        text = self.filter.lower()
        return {
            source: [name for name in names if text in name.lower()]
            for source, names in known.items()
            if self.source in (None, source)
        }


def _shown(found: Mapping[str, Sequence[str]]) -> Iterator[RenderableType]:
    for source, names in found.items():
        if not names:
            continue
        yield Text.from_markup(f"\n[bold]{_SOURCES.get(source, source)}[/], {len(names)}")
        yield Columns([Text(name) for name in names[:_MOST]], padding=(0, 2))
        if len(names) > _MOST:
            yield Text(f"and {len(names) - _MOST} more; filter by a text", style="dim")
