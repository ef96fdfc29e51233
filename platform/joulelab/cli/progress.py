"""What is being done, on the standard error: on one line where that is a terminal."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def progress(first: str = "Starting") -> Generator[Callable[[str], None]]:
    """Yield a function that is told what is being done.

    Args:
        first: What is being done at first.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
    else:
        yield lambda step: print(step, file=sys.stderr, flush=True)
