"""The governor on the real NVML device, against a library with the real structures."""

import time
from math import inf

from waiting import until

from joulelab.governor.strategy import Rules

LEAST_S = 0.1
"""Over less than that NVML counts nothing."""


def watch(device):
    """When it was looked, for how long, and whether anything was seen; and the windows seen."""
    from joulelab.devices.control import OwnControl
    from joulelab.governor import STRATEGIES
    from joulelab.governor.governor import Governor
    from joulelab.governor.strategy import Rules

    rules = Rules(off_share=0.0, cpu_budget=1.0)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        looks, read = [], governor._observer.look

        def look(expected):
            start_s = time.monotonic()
            seen = read(expected)
            looks.append((start_s, time.monotonic(), seen is not None))
            return seen

        governor._observer.look = look
        until(lambda: sum(is_seen for _, _, is_seen in looks) >= 16)
    governor.raise_if_failed()
    num_windows = sum(phase.num_windows for phase in governor.recogniser.phases)
    return looks, num_windows, governor.watched_s, governor.observing_only


def test_every_look_counts_activity(driver):
    """NVML refuses to count over less than 0.1 s, and a look that comes too early sees nothing."""
    driver.add()

    looks, num_windows, watched_s, observing_only = driver.run(watch)

    assert observing_only == ""
    assert Rules().period_s > LEAST_S
    assert num_windows >= 12
    assert watched_s >= 12 * LEAST_S
    last_s = inf  # when the last of those that saw something was over
    for start_s, stop_s, is_seen in looks:
        assert is_seen or start_s - last_s < LEAST_S
        last_s = stop_s if is_seen else last_s
