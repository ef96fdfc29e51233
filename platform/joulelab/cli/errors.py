"""Errors as one line and an exit code, for commands and for experiments' scripts."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from joulelab.errors import (
    INTERRUPTED,
    JouleLabError,
    UserCodeError,
    missing_extra,
    one_line,
    printable,
)

BAD_REQUEST = 2
UNREAD = 141


def exit_code(run: Callable[[], int], *, name: str | None = None) -> int:
    """Call ``run`` and return its exit code; an error becomes one line and a code of its own.

    A file of the user's that fails is shown with its own lines. The code is 2 if the request was
    wrong or the system refused it, or 130 if it was interrupted. The line begins with ``name``, by
    default that of what was started.
    """
    name = name or _started()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except BrokenPipeError:  # whoever read has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except UserCodeError as error:
        first, *lines = map(printable, str(error).splitlines())
        print(f"{name}: {first}", *lines, sep="\n", file=sys.stderr)
        return BAD_REQUEST
    except (JouleLabError, OSError) as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        return BAD_REQUEST
    except ImportError as error:
        if (missing := missing_extra(error)) is None:
            raise
        print(f"{name}: {missing}", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt as interrupt:
        print(f"{name}: {f'interrupted. {one_line(interrupt)}'.rstrip()}", file=sys.stderr)
        return INTERRUPTED


def quiet_start(module: str) -> None:
    """Have a script that is still importing end with one line: by Ctrl-C, or for want of an extra.

    Nothing was begun by then, and some libraries take an interruption of their import for another
    error, or for none.
    """
    if module == "__main__" and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)
        sys.excepthook = _print_error


@contextmanager
def quiet_imports() -> Generator[None]:
    """Import within this as :func:`quiet_start` has it."""
    before, hook = signal.getsignal(signal.SIGINT), sys.excepthook
    quiet_start("__main__")
    try:
        yield
    finally:
        sys.excepthook = hook
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, before)


def _started() -> str:
    """Return the name of the script, or of the command that runs it."""
    # `python [-m] joulelab study ...` runs a script, whose own name is the last.
    words = (*sys.orig_argv[1:3], sys.argv[0])
    names = [Path(word).name.partition(".")[0] for word in words]
    return "joulelab" if "joulelab" in names else names[-1]


def _end(_number: int, _frame: Any) -> None:
    sys.stderr.write(f"{_started()}: interrupted.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _print_error(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    missing = missing_extra(error) if isinstance(error, ImportError) else None
    if missing is None:
        sys.__excepthook__(kind, error, traceback)
        return
    print(f"{_started()}: {missing}", file=sys.stderr)
    os._exit(BAD_REQUEST)  # an excepthook cannot choose the exit code
