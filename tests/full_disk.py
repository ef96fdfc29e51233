"""A disk that has no room."""

import resource
import sys
from contextlib import contextmanager


@contextmanager
def full_beyond(size_b):
    """Let the file system take no file longer than ``size_b``, as a full disk would not.

    Python keeps what is cut off of a module that it has compiled, for all later processes.
    """
    before, keeps_none = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_b, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = keeps_none
