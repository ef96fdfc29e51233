"""Waits for what becomes true at some time, however busy the machine is."""

import time

PATIENCE_S = 60.0
"""Far more than anything here takes; only what never comes takes as long."""


def until(condition, timeout_s=PATIENCE_S, interval_s=0.005):
    """Return the first value of ``condition()`` that holds; fail where none comes."""
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(interval_s)
    return found
