"""Follows the energy counter and the SM clock of a GPU from a process of its own.

A thread beside a loop that launches kernels from Python would slow down what is measured.
"""

import multiprocessing
import time
from multiprocessing.connection import Connection
from statistics import fmean
from types import TracebackType

from estimator_anchors import NvmlSensors, Sensors, TrialSensors

_PERIOD_S = 0.004
_POLLS_PER_CLOCK = 25
_TICK_S = 0.1


class EnergyPoller:
    """Ticks of the energy counter, and clocks between them; NVML is only read.

    Args:
        uuid: GPU to follow; empty for one that is not there.
    """

    def __init__(self, uuid: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_poll, args=(uuid, theirs), daemon=True)

    def __enter__(self) -> "EnergyPoller":
        self._process.start()
        self._pipe.recv()  # importing takes it seconds
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, error, traceback
        self._pipe.send("stop")
        self._process.join(timeout=5)

    def read(self, start_s: float, stop_s: float) -> tuple[float | None, float | None]:
        """Return mean power (W) and SM clock (MHz) of a window that has just ended.

        Power is that between the first tick that saw nothing from before the window and the last.
        """
        self._pipe.send("tell")
        ticks, clocks = self._pipe.recv()
        inside = [tick for tick in ticks if start_s + _TICK_S <= tick[0] <= stop_s]
        clocks_mhz = [clock for at_s, clock in clocks if start_s <= at_s <= stop_s]
        power_w = None
        if len(inside) > 1:
            (first_s, first_j), (last_s, last_j) = inside[0], inside[-1]
            power_w = (last_j - first_j) / (last_s - first_s)
        return power_w, fmean(clocks_mhz) if clocks_mhz else None


def _poll(uuid: str, pipe: Connection) -> None:
    sensors: Sensors = NvmlSensors(uuid) if uuid else TrialSensors()
    ticks: list[tuple[float, float]] = []
    clocks: list[tuple[float, float]] = []
    last_j, polls = sensors.energy_j(), 0
    pipe.send("ready")
    while True:
        energy_j = sensors.energy_j()
        if energy_j != last_j:
            ticks.append((time.time(), energy_j))
            last_j = energy_j
        if polls % _POLLS_PER_CLOCK == 0:
            clocks.append((time.time(), sensors.clock_mhz()))
        polls += 1
        if not pipe.poll(_PERIOD_S):
            continue
        try:
            if pipe.recv() == "stop":
                return
        except EOFError:  # whoever asked is gone
            return
        pipe.send((ticks, clocks))
        ticks, clocks = [], []
