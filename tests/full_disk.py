"""A disk that has no room."""

import resource
from contextlib import contextmanager


@contextmanager
def full_beyond(size_b):
    """Let the file system take no file longer than ``size_b``, as a full disk would not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_b, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
