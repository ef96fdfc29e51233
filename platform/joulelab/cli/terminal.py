"""Where commands print: answers, and meanwhile what is being done."""

import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType


def terminal() -> Console:
    """Return the standard output, 100 columns wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


@dataclass(frozen=True, kw_only=True)
class Printing:
    """A command with an answer."""

    json: bool = False  # Print one JSON object instead of text.

    def show(self, content: object, shown: Callable[[], Iterable[RenderableType]]) -> None:
        """Print ``content`` as JSON, or what is ``shown`` of it: sentences as they are, tables."""
        if self.json:
            print(json.dumps(content, indent=2, default=dict))
            return
        console = terminal()
        for each in shown():
            if isinstance(each, str):
                print(each)
            else:
                console.print(each)


@contextmanager
def progress(first: str = "Starting") -> Generator[Callable[[str], None]]:
    """Yield a function that shows what is being done."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
    else:
        yield lambda step: print(step, file=sys.stderr, flush=True)
