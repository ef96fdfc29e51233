"""What a training loop used so far, for whatever logs it."""

import logging
import math
import time
from dataclasses import dataclass

from joulelab.errors import ConfigError
from joulelab.monitor.monitor import Monitor
from joulelab.monitor.window import Window

INTERVAL_S = 5.0
"""How often energy is read. Each read waits for the sensors, some 20 to 100 ms."""
SHORTEST_S = 0.2  # less is not read by itself: a few samples of the sensors must lie within

logger = logging.getLogger(__name__)


class EnergyLog:
    """Adds up the energy of a loop, and tells what it took per sample and per token.

    ::

        with EnergyLog(max_energy_j=5e6) as energy:
            for batch in batches:
                step(batch)
                energy.step(samples=len(batch))
                if energy.is_spent:
                    break
        print(energy.metrics())

    Args:
        monitor: Where energy comes from; ``None`` for a monitor of its own. One that is not open
            yet is started and stopped with the log.
        max_energy_j: Energy after which :attr:`is_spent` is true, in joules. As it is approached,
            energy is read when it should be reached at the last power, and a step after that it
            is overshot by some 0.2 s of the loop.
        interval_s: Time between reads, in seconds.

    Raises:
        ConfigError: If a number is not positive.
    """

    def __init__(
        self,
        monitor: Monitor | None = None,
        *,
        max_energy_j: float | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        for name, value in (("max_energy_j", max_energy_j), ("interval_s", interval_s)):
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be positive, got {value}.")
        self._monitor = monitor
        self._is_ours = False  # whether this log started the monitor, and so stops it
        self._max_energy_j = max_energy_j
        self._interval_s = interval_s
        self._window: Window | None = None
        self._begun_s = 0.0
        self._has_worked = False
        self._power_w: float | None = None
        self._total = _Sum()
        self._since_logged = _Sum()
        self._in_window = _Sum()

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up, as far as energy is known."""
        return self._max_energy_j is not None and self._total.energy_j >= self._max_energy_j

    @property
    def reason(self) -> str:
        """Why energy is not known in all; empty if it is."""
        return self._total.reason

    def start(self) -> None:
        """Begin to measure."""
        if self._monitor is None:
            self._monitor = Monitor()
        self._is_ours = self._is_ours or not self._monitor.is_open
        self._monitor.start()
        self._begin()

    def step(self, *, samples: float = 0.0, tokens: float = 0.0) -> None:
        """Note that work was done; reads the energy if it is time."""
        self._in_window.samples += samples
        self._in_window.tokens += tokens
        self._has_worked = True
        if time.monotonic() - self._begun_s >= self._due_s:
            self._settle(goes_on=True)

    def metrics(self) -> dict[str, float]:
        """Return what is known at the last read, by name, and begin anew for the next call.

        Returns:
            ``energy_j``, since the start; ``power_w``, ``energy_per_sample_j`` and
            ``energy_per_token_j`` since the last call that returned them. What is not known, or
            was not read since then, is absent.
        """
        span = self._since_logged
        if span.duration_s == 0 and self._window is not None:
            return {}
        self._since_logged = _Sum()
        found = {} if self._total.reason else {"energy_j": self._total.energy_j}
        if span.duration_s > 0 and not span.reason:
            found["power_w"] = span.energy_j / span.duration_s
            if span.samples:
                found["energy_per_sample_j"] = span.energy_j / span.samples
            if span.tokens:
                found["energy_per_token_j"] = span.energy_j / span.tokens
        return found if self._total.duration_s > 0 else {}

    def stop(self) -> None:
        """Read what is left, and measure no more. Safe to call twice."""
        if self._window is not None and self._monitor is not None:
            if self._has_worked or time.monotonic() - self._begun_s >= SHORTEST_S:
                self._settle(goes_on=False)
            else:  # nothing was done since the last read, and it is too short for the sensors
                self._monitor.end(self._window)
                self._window = None
            if self._is_ours:
                self._monitor.stop()
                self._is_ours = False

    def __enter__(self) -> "EnergyLog":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _due_s(self) -> float:
        """How long the present stretch lasts before it is read."""
        if self._max_energy_j is None or not self._power_w:
            return self._interval_s
        left_s = (self._max_energy_j - self._total.energy_j) / self._power_w
        return min(self._interval_s, max(left_s, SHORTEST_S))

    def _begin(self) -> None:
        self._has_worked = False
        if self._monitor is not None:
            self._begun_s = time.monotonic()
            self._window = self._monitor.begin("loop")

    def _settle(self, *, goes_on: bool) -> None:
        """Read a stretch; the next one begins first, so that the wait for the sensors is in it."""
        if self._monitor is None or self._window is None:
            return
        window, self._window = self._monitor.end(self._window), None
        if goes_on:
            self._begin()
        found, self._in_window = self._in_window, _Sum()
        found.duration_s = window.duration_s or 0.0
        found.reason = window.reason
        if found.reason:
            logger.warning("The energy of a stretch of the loop is not known: %s", found.reason)
        else:
            found.energy_j = window.energy_j
            self._power_w = found.energy_j / found.duration_s
        self._total += found
        self._since_logged += found


@dataclass(slots=True)
class _Sum:
    """Work, time and energy of some stretches of a loop."""

    samples: float = 0.0
    tokens: float = 0.0
    duration_s: float = 0.0
    energy_j: float = 0.0
    reason: str = ""

    def __iadd__(self, other: "_Sum") -> "_Sum":
        self.samples += other.samples
        self.tokens += other.tokens
        self.duration_s += other.duration_s
        self.energy_j += other.energy_j
        self.reason = self.reason or other.reason
        return self
