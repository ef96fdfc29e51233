"""Plays takes on a virtual clock, and answers what the sensors would have said."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from joulelab.core.clock import VirtualClock
from joulelab.core.trace import PowerTrace
from joulelab.devices.replay.recording import Take

SAMPLE_PERIOD_S = 0.02
BUFFER_S = 2.4
"""An H200's driver holds 119 samples, 20 ms apart."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What goes on from ``start_s``: a take, rest at a known power, or nobody knows."""

    start_s: float
    take: Take | None
    rest_w: float | None

    def energy_until_j(self, at_s: float) -> float:
        if self.take is not None:
            return self.take.energy_until_j(at_s - self.start_s)
        return (self.rest_w or 0.0) * (at_s - self.start_s)

    def power_w(self, at_s: float) -> float | None:
        return self.rest_w if self.take is None else self.take.power_w(at_s - self.start_s)


class Player:
    """The sensors of a device that plays a recording.

    Where nothing was recorded, as at rest in most published tables, the sensors are blank: the
    counter stands still, there are no samples, and power is ``None``.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._before_j = 0.0
        self._stretches = deque([_Stretch(clock.now_s(), None, None)])

    def play(self, take: Take, rest_w: float | None) -> None:
        """Play ``take`` to its end, and rest at ``rest_w`` from then on."""
        self._begin(take, None)
        self._clock.sleep_s(take.duration_s)
        self._begin(None, rest_w)

    def rest(self, rest_w: float | None) -> None:
        """Rest at ``rest_w`` from now on, unless a take is playing."""
        current = self._stretches[-1]
        if current.take is None and current.rest_w != rest_w:
            self._begin(None, rest_w)

    def energy_j(self) -> float:
        """Energy of all that was played so far."""
        return self._before_j + self._stretches[-1].energy_until_j(self._clock.now_s())

    def power_w(self) -> float | None:
        """Power now; ``None`` where nothing was recorded."""
        return self._stretches[-1].power_w(self._clock.now_s())

    def samples(self) -> PowerTrace:
        """Power samples of the last seconds; those of unrecorded stretches are missing."""
        now_s = self._clock.now_s()
        last = int(now_s / SAMPLE_PERIOD_S)
        times_s = np.arange(last - round(BUFFER_S / SAMPLE_PERIOD_S) + 1, last + 1)
        taken = {at_s: self._power_at_w(at_s) for at_s in (times_s * SAMPLE_PERIOD_S).tolist()}
        known = {at_s: power_w for at_s, power_w in taken.items() if power_w is not None}
        return PowerTrace(
            t_s=np.array(list(known), float), power_w=np.array([*known.values()], float)
        )

    def _begin(self, take: Take | None, rest_w: float | None) -> None:
        self._before_j = self.energy_j()
        now_s = self._clock.now_s()
        self._stretches.append(_Stretch(now_s, take, rest_w))
        while len(self._stretches) > 1 and self._stretches[1].start_s < now_s - BUFFER_S:
            self._stretches.popleft()

    def _power_at_w(self, at_s: float) -> float | None:
        for stretch in reversed(self._stretches):
            if stretch.start_s <= at_s:
                return stretch.power_w(at_s)
        return None
