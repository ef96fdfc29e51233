"""Whose descendant a process is."""

from collections.abc import Collection


def descends(pid: int, roots: Collection[int]) -> bool:
    """Whether a process is one of ``roots``, or runs on behalf of one; it must run to be asked."""
    import psutil

    try:
        return pid in roots or any(each.pid in roots for each in psutil.Process(pid).parents())
    except psutil.Error:
        return False
