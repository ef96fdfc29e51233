"""Errors as one line and an exit code, for commands and for experiments' scripts."""

import sys
from collections.abc import Callable

from joulelab.errors import JouleLabError

BAD_REQUEST = 2
INTERRUPTED = 130


def exit_code(run: Callable[[], int], *, name: str) -> int:
    """Call ``run`` and return its exit code; an error becomes one line and a code of its own.

    Args:
        run: What to do.
        name: Who says so, at the start of the line.

    Returns:
        What ``run`` returned, 2 if the request was wrong, or 130 if it was interrupted.
    """
    try:
        return run()
    except JouleLabError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt as interrupt:
        print(f"{name}: {f'interrupted. {interrupt}'.rstrip()}", file=sys.stderr)
        return INTERRUPTED
