"""Where commands print: answers, and meanwhile what is being done."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console


def terminal() -> Console:
    """Return the standard output, 100 columns wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


@contextmanager
def progress(first: str = "Starting") -> Generator[Callable[[str], None]]:
    """Yield a function that shows what is being done."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
    else:
        yield lambda step: print(step, file=sys.stderr, flush=True)
