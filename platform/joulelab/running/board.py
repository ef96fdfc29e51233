"""Measure what is to be known of one board in one machine, once."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.base import Device
from joulelab.errors import JouleLabError
from joulelab.hardware.board_facts import SCHEMA, BoardFacts, ClockPoint, Fact
from joulelab.provenance import collect_provenance
from joulelab.running.step_response import (
    COOLING,
    RIDGE,
    leakage_of,
    measure_lags,
    ridge_of,
)
from joulelab.sampling.calibration import calibrate
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import choices_of

QUICK = Procedure(pace="quick", idle_s=0.0)
IDLE = Procedure(idle_s=10.0, warmup_min_s=0.5, warmup_max_s=1.0, window_s=0.5, limit_s=2.0)
"""For the idle window alone, in a process that has a context."""
HEATING = Procedure(
    idle_s=0.0, warmup_min_s=25.0, warmup_max_s=25.0, window_s=1.0, min_windows=2, limit_s=3.0
)
LOADS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"precision": "fp32", "n": 4096}),
    ("stream", {}),
)
"""One that is bound by units and one by memory; most boards run both below their limit."""
NUM_CLOCKS = 24


def measure_board(
    device: Device,
    bench: Bench,
    *,
    sets_clocks: bool = True,
    host: Callable[[], Sequence[Fact]] = tuple,
    report: Callable[[str], object] = lambda what: None,
) -> BoardFacts:
    """Measure one board, in some minutes of it; nothing else may run on it.

    The ``device`` is without a context of this process, and ``bench`` measures on it. Where it
    ``sets_clocks``, they are locked for power over clocks and the knee of voltage. ``host``
    measures the machine; ``report`` is called with what is being done next. Raises MeasurementError
    if the energy counter stands still or runs backwards; DeviceError if the device has gone.
    """
    board = _Board(device, bench, report)
    facts = [*board.sensors(), *board.lags(), *board.idle(), *board.leakage(), *board.rates()]
    if sets_clocks:
        curve = tuple(board.curve())
        facts.append(ridge_of(curve, LOADS[0][0]))
    else:
        curve = ()
        facts.append(Fact(name=RIDGE, reason="no clock may be set"))
    provenance = collect_provenance()
    return BoardFacts(
        schema=SCHEMA,
        device=device.identity(),
        host=provenance.hostname,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        joulelab_version=provenance.joulelab_version,
        facts=(*facts, *host()),
        curve=curve,
    )


def host_facts() -> tuple[Fact, ...]:
    """Measure what launching kernels and Python's modules take in this machine."""
    try:
        from joulelab.estimator.calibration.host_speed import measure_host
    except ImportError as error:
        return (Fact(name="python.module_s", reason=f"PyTorch cannot be loaded: {error}"),)
    figures = measure_host("host").figures.items()
    return tuple(
        Fact(name=name, value=one.value)
        if one.status == "S"
        else Fact(name=name, reason=f"no GPU that PyTorch sees: {one.source}")
        for name, one in figures
    )


class _Board:
    def __init__(self, device: Device, bench: Bench, report: Callable[[str], object]) -> None:
        self._device, self._bench, self._report = device, bench, report

    def sensors(self) -> Iterator[Fact]:
        """Yield what the sensors are like, and the power of a board without a context."""
        self._report("Sensors and rest")
        found = calibrate(self._device)
        tick, samples, rest = found.tick, found.samples, found.observer
        if tick is None:
            yield Fact(name="counter_tick_s", reason="the driver has no energy counter")
        elif tick.period_s is None:
            yield Fact(name="counter_tick_s", reason="the counter moves at every read")
        else:
            yield Fact(name="counter_tick_s", value=tick.period_s, u=tick.resolution_s)
        if samples is not None:
            yield Fact(name="sample_period_s", value=samples.period_s)
        if rest is not None:
            yield Fact(name="resting_power_w", value=rest.quiet_power_w, u=rest.difference_u_w)
        for call in found.latencies:
            yield Fact(name=f"call_s.{call.call}", value=call.median_s)

    def lags(self) -> Iterator[Fact]:
        """Yield by how much readings of power come late."""
        self._report("A step of power")
        yield from measure_lags(self._device, _configuration(*LOADS[1]))

    def idle(self) -> Iterator[Fact]:
        """Yield the power of a board that waits with a context."""
        self._report("Idle power")
        (record,) = self._measured(*LOADS[1], procedure=IDLE)
        idle = record.measurement.idle
        name = "waiting_power_w"
        if idle is None:
            yield Fact(name=name, reason=record.measurement.reason or "no idle window")
            return
        power_w = idle.energy_j / idle.duration_s
        yield Fact(name=name, value=power_w, u=idle.power_u_w)

    def leakage(self) -> Iterator[Fact]:
        """Yield by how much the power of a board that waits grows by temperature."""
        self._report("A board that cools down")
        self._measured("gemm", {"precision": "fp16"}, procedure=HEATING)
        (record,) = self._measured("idle", {"duration_s": 0.05}, procedure=COOLING)
        yield leakage_of(record)

    def rates(self) -> Iterator[Fact]:
        """Yield what memory and units achieve at the driver's own clocks, and at what power."""
        yield from self._rate("memory_b_per_s", "memory", 1e9, LOADS[1])
        for precision in choices_of(WORKLOADS["gemm"].settings_type, "precision"):
            load = ("gemm", {"precision": precision})
            yield from self._rate(f"flop_per_s.{precision}", precision, 1e12, load)

    def curve(self) -> Iterator[ClockPoint]:
        """Yield power and speed of two loads over locked clocks, those that were held."""
        grid_mhz = sorted(self._device.capabilities().sm_clocks_mhz)
        chosen = [grid_mhz[round(at)] for at in np.linspace(0, len(grid_mhz) - 1, NUM_CLOCKS)]
        for load, knobs in LOADS:
            clocks_mhz = list(dict.fromkeys(chosen))
            Random(0).shuffle(clocks_mhz)  # noqa: S311 - an order: the board warms up meanwhile
            for clock_mhz in clocks_mhz:
                self._report(f"{load} at {clock_mhz} MHz")
                point = OperatingPoint(sm_clock_mhz=clock_mhz)
                (record,) = self._measured(load, knobs, point=point)
                if (found := record.measurement).valid:
                    yield ClockPoint(
                        load=load,
                        sm_clock_mhz=clock_mhz,
                        power_w=found.power_w,
                        power_u_w=found.power_w * _relative_u(found),
                        rate_per_s=1 / found.time_per_unit_s,
                    )

    def _rate(
        self, name: str, what: str, per_unit: float, load: tuple[str, dict[str, Any]]
    ) -> Iterator[Fact]:
        self._report(f"{load[0]} {' '.join(map(str, load[1].values()))}")
        try:
            (record,) = self._measured(*load)
        except JouleLabError as error:
            yield Fact(name=name, reason=str(error))
            return
        found = record.measurement
        if not found.valid:
            yield Fact(name=name, reason=found.reason)
            return
        rate, power_w = per_unit / found.time_per_unit_s, found.power_w
        u = rate * found.time_per_unit_u_s / found.time_per_unit_s
        yield Fact(name=name, value=rate, u=u)
        yield Fact(name=f"power_w.{what}", value=power_w, u=power_w * _relative_u(found))
        clock_mhz = found.observed.sm_clock_mhz
        reason = "the clock could not be read" if clock_mhz is None else ""
        yield Fact(name=f"sm_clock_mhz.{what}", value=clock_mhz, reason=reason)

    def _measured(
        self,
        load: str,
        knobs: dict[str, Any],
        *,
        point: OperatingPoint | None = None,
        procedure: Procedure = QUICK,
    ) -> tuple[Record, ...]:
        trial = Trial(study="board", name=load, configuration=_configuration(load, knobs, point))
        return self._bench.measure(trial, procedure=procedure)


def _configuration(
    load: str, knobs: dict[str, Any], point: OperatingPoint | None = None
) -> Configuration:
    return Configuration.of(load, WORKLOADS[load].from_knobs(knobs).settings, point)


def _relative_u(found: Measurement) -> float:
    return found.energy_per_unit_u_j / found.energy_per_unit_j
