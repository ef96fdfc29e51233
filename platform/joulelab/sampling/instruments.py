"""All that watches a device during a measurement, and the windows read off it."""

from typing import Self

from typing_extensions import override

from joulelab.core.counter import EnergyCounter, samples_window
from joulelab.core.energy import EnergyWindow
from joulelab.core.procedure import Procedure
from joulelab.devices.base import Device
from joulelab.errors import TraceCoverageError
from joulelab.sampling.meter import Edges, Meter
from joulelab.sampling.sampler import POLL_PERIOD_S, SampleLog, Sampler
from joulelab.sampling.tick_tracker import TickTracker
from joulelab.sampling.window_loop import TimeSpan


class Instruments(Edges):
    """The sampler and, where the device has an energy counter, the meter; both see an edge.

    ``tracker`` is what is known of the counter's ticks from earlier. Unit activities are counted
    besides, unless it is said not to.
    """

    def __init__(
        self,
        device: Device,
        procedure: Procedure,
        *,
        tracker: TickTracker | None = None,
        counts_activity: bool = True,
    ) -> None:
        self._clock = device.clock
        self._start_s = self._clock.now_s()
        self.sampler = Sampler(
            device,
            period_s=procedure.sample_period_s,
            budget=procedure.sampler_budget,
            counts_activity=counts_activity,
        )
        has_counter = device.capabilities().has_energy_counter
        self.meter = Meter(device, tracker=tracker) if has_counter else None
        self._margin_s = 2 * max(POLL_PERIOD_S, procedure.sample_period_s or 0.0)

    def __enter__(self) -> Self:
        self._start_s = self._clock.now_s()
        self.sampler.start()
        if self.meter is not None:
            self.meter.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.meter is not None:
            self.meter.stop()
        self.sampler.stop()

    @property
    def tick_s(self) -> float:
        """Time between the counter's ticks, or between samples where there is no counter."""
        return self.meter.tick_s if self.meter is not None else POLL_PERIOD_S

    @property
    @override
    def margin_s(self) -> float:
        return self._margin_s

    @override
    def expect_edge(self, at_s: float) -> None:
        if self.meter is not None:
            self.meter.expect_edge(at_s)

    @override
    def mark_edge(self, at_s: float) -> None:
        if self.meter is not None:
            self.meter.mark_edge(at_s)

    @override
    def bracketed(self, since_s: float) -> bool:
        """Whether a whole look and a tick have passed an edge at ``since_s``."""
        if not self.sampler.has_looked_closely(since_s):
            return False
        return self.meter is None or self.meter.bracketed(since_s)

    def check(self) -> None:
        """Raise what has gone wrong in the background, if anything."""
        self.sampler.raise_if_failed()
        if self.meter is not None:
            self.meter.raise_if_failed()

    def cpu_share(self, log: SampleLog) -> float:
        """Return the share of one core that sampler and meter took together."""
        meter_s = self.meter.cpu_s if self.meter is not None else 0.0
        return log.cpu_share + meter_s / max(self._clock.now_s() - self._start_s, 1e-9)

    def readings(self) -> "Readings":
        """Return everything seen so far."""
        self.check()
        meter = self.meter
        counter = EnergyCounter(meter.polls(), tick_s=meter.known_tick_s) if meter else None
        return Readings(counter, self.sampler.log())


class Readings:
    """What the instruments have seen, and the energy of intervals within it."""

    def __init__(self, counter: EnergyCounter | None, log: SampleLog) -> None:
        self.counter = counter
        self.log = log

    def window(self, interval: TimeSpan) -> EnergyWindow:
        """Return the energy of an interval from the counter, or without one from the samples.

        Raises TraceCoverageError if that source does not span the interval.
        """
        if self.counter is not None:
            return self.counter.window(interval.start_s, interval.stop_s, work=interval.work)
        return self._sampled(interval)

    def cross_check(self, interval: TimeSpan) -> EnergyWindow | None:
        """Return the same energy from the samples; ``None`` where they do not span it."""
        trace = self.log.trace
        if trace is None or not trace.spans(interval.start_s, interval.stop_s):
            return None
        return self._sampled(interval)

    def _sampled(self, interval: TimeSpan) -> EnergyWindow:
        if self.log.trace is None:
            raise TraceCoverageError("The device delivered no power samples at all.")
        return samples_window(self.log.trace, interval.start_s, interval.stop_s, work=interval.work)
