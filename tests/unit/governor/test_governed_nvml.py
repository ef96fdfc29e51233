"""The governor on the real NVML device, against a library with the real structures."""

import time

import pytest


def watch(device):
    """What is seen in two seconds, and what that costs."""
    from joulelab.devices.control import OwnControl
    from joulelab.governor import STRATEGIES
    from joulelab.governor.governor import Governor
    from joulelab.governor.rules import Rules

    rules = Rules(off_share=0.0)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        time.sleep(2.0)
    governor.raise_if_failed()
    phases = [(phase.signature.label, phase.num_windows) for phase in governor.recogniser.phases]
    return phases, governor.watched_s, governor.cpu_s, governor.observing_only


def test_every_look_counts_activity(driver):
    """NVML refuses to count over less than 0.1 s, and a look that comes too early sees nothing."""
    driver.add()

    phases, watched_s, _, observing_only = driver.run(watch)

    assert observing_only == ""
    assert watched_s == pytest.approx(2.0, abs=0.3)
    assert sum(num for _, num in phases) >= 12
