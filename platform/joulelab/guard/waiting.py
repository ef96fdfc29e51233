"""Wait for descriptors, and for processes that are not children."""

import os
import select
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from joulelab.errors import GuardError


def is_readable(file: int, timeout_s: float | None = 0.0) -> bool:
    """Whether ``file`` can be read, or its process has ended if it is a pidfd.

    Args:
        file: A descriptor.
        timeout_s: How long to wait for that; ``None`` waits for ever.
    """
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))


@contextmanager
def wait_until_ended(pids: Sequence[int], timeout_s: float) -> Generator[None]:
    """Take hold of ``pids``, and after the ``with`` block wait until all of them have ended.

    Raises:
        GuardError: If one has not after ``timeout_s``.
    """
    with ExitStack() as held:
        pidfds = {}
        for pid in pids:
            try:
                pidfds[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            held.callback(os.close, pidfds[pid])
        yield
        deadline_s = time.monotonic() + timeout_s
        for pid, pidfd in pidfds.items():
            if not is_readable(pidfd, max(0.0, deadline_s - time.monotonic())):
                raise GuardError(f"Process {pid} has not ended within {timeout_s:g} s.")
