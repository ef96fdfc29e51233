"""``joulelab models``: the models that the estimator can trace."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.columns import Columns
from rich.text import Text

from joulelab.cli.estimator.terminal import terminal
from joulelab.registry import unknown_name

_SOURCES = {
    "torchvision": "torchvision, by name",
    "hf": "transformers, by name or hf:TYPE?option=value",
    "diffusers": "pipelines of diffusers",
    "workload": "joulelab's own workloads",
    "timm": "timm:NAME",
}
_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """List the models that can be estimated; besides them, any class: path.py:Class.

    Such a file of yours is executed.

    Attributes:
        filter: Only those whose name holds this text.
        source: Only those of one source.
        json: Print one JSON object instead of text.
    """

    filter: Annotated[str, tyro.conf.Positional] = ""
    source: str | None = None
    json: bool = False

    def run(self) -> int:
        """Print the names.

        Returns:
            0, or 1 if none is left.

        Raises:
            UnknownNameError: If there is no such source.
        """
        found = self._chosen()
        if self.json:
            print(json.dumps(found, indent=2))
        else:
            _show(found)
        return int(not any(found.values()))

    def _chosen(self) -> Mapping[str, Sequence[str]]:
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


def _show(found: Mapping[str, Sequence[str]]) -> None:
    console = terminal()
    for source, names in found.items():
        if not names:
            continue
        console.print(f"\n[bold]{_SOURCES.get(source, source)}[/], {len(names)}")
        console.print(Columns([Text(name) for name in names[:_MOST]], padding=(0, 2)))
        if len(names) > _MOST:
            console.print(f"and {len(names) - _MOST} more; filter by a text", style="dim")
