"""Simulated GPUs whose trials take wall time, as those of a real GPU do, at little work.

A simulated GPU measures in virtual time, as fast as a core can compute it: then the cores are all
that a benchmark of many GPUs shows. A paced one waits on the wall besides, in proportion to the
virtual time that passes.
"""

import os
import time
from pathlib import Path
from typing import Any

from typing_extensions import override

from joulelab.core.clock import VirtualClock
from joulelab.devices import DEVICES
from joulelab.devices.simulated import SimulatedDevice
from joulelab.devices.simulated.store import DriverState

_PACE = "JOULELAB_BENCHMARK_PACE"
_LEAST_WAIT_S = 0.02


def paced(pace: float) -> dict[str, Any]:
    """Return the runtime environment of a Ray job whose simulated GPUs are paced.

    Args:
        pace: Seconds of waiting for each virtual second.
    """
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {
        "env_vars": {_PACE: f"{pace}", "PYTHONPATH": os.pathsep.join(filter(None, folders))},
        "worker_process_setup_hook": "paced_device.pace_simulated",
    }


def pace_simulated() -> None:
    """Put paced GPUs in the place of simulated ones, in this process."""
    DEVICES._targets["simulated"] = f"{__name__}:PacedDevice"  # noqa: SLF001


class PacedClock(VirtualClock):
    """A virtual clock whose time takes a share of the wall's; what is computed comes on top.

    Args:
        pace: Seconds of waiting for each virtual second.
    """

    def __init__(self, pace: float) -> None:
        super().__init__()
        self._pace = pace
        self._owed_s = 0.0

    @override
    def sleep_s(self, duration_s: float) -> None:
        super().sleep_s(duration_s)
        if self._callback_s is None:
            self._owed_s += self._pace * duration_s
            if self._owed_s > _LEAST_WAIT_S:
                start_s = time.monotonic()
                time.sleep(self._owed_s)
                self._owed_s -= time.monotonic() - start_s


class PacedDevice(SimulatedDevice):
    """One simulated GPU on a paced clock."""

    def __init__(self, driver: DriverState) -> None:
        super().__init__(driver, clock=PacedClock(float(os.environ[_PACE])))
