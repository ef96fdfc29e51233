"""Measurements of an invented GPU with closed-form curves, for tests of what reads results.

Power is ``P(f) = 100 + 300 x^3`` W and time per token ``T(f) = (0.6 + 0.4 / x) ms`` with
``x = f / 2000 MHz``: energy per token falls from the default clock, has a minimum, and rises again.
"""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from math import exp
from random import Random

import numpy as np

from joulelab import Configuration, EnergyWindow, Measurement, OperatingPoint, PowerTrace
from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Finding, Observed, Provenance
from joulelab.core.record import Record
from joulelab.tracking.study import StudyHeader

DEFAULT_MHZ = 2000
STUDY = "dvfs/Invented GPU/llama"
START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def power_w(clock_mhz):
    return 100 + 300 * (clock_mhz / DEFAULT_MHZ) ** 3


def time_s(clock_mhz):
    return 1e-3 * (0.6 + 0.4 * DEFAULT_MHZ / clock_mhz)


def energy_j(clock_mhz):
    return power_w(clock_mhz) * time_s(clock_mhz)


def board(index=0):
    return DeviceIdentity(
        uuid=f"SIM-invented-{index}",
        name="Invented GPU",
        backend="simulated",
        driver_version="580.0",
    )


def provenance(minute=0.0):
    return Provenance(
        joulelab_version="0.1.0",
        git_sha="0123456789ab",
        hostname="node-1",
        python_version="3.11.7",
        started_at=(START + timedelta(minutes=minute)).isoformat(),
    )


def header(**changes):
    made = StudyHeader(
        name=STUDY,
        sweep_id="sweep-1",
        command=("experiments/dvfs_sweep.py", "--repeats", "3"),
        settings=(("repeats", 3), ("procedure.window_s", 2.0), ("procedure.min_windows", 3)),
        provenance=provenance(),
    )
    return replace(made, **changes)


def measurement(
    clock_mhz=None,
    *,
    index=0,
    repeat=0,
    phase="decode",
    num_windows=3,
    energy_factor=1.0,
    time_factor=1.0,
    relative_u=0.001,
    minute=0.0,
    findings: Sequence[Finding] = (),
    **changes,
):
    """Make a measurement whose windows lie on the curves, times the two factors."""
    clock = clock_mhz or DEFAULT_MHZ
    work = 1000.0
    window = EnergyWindow(
        start_s=60 * minute,
        duration_s=time_s(clock) * work * time_factor,
        energy_j=energy_j(clock) * work * energy_factor,
        energy_u_j=energy_j(clock) * work * relative_u * num_windows**0.5,
        source="counter",
        work=work,
    )
    name = f"{clock_mhz or 'default'}-r{repeat}-b{index}-{phase}"
    made = Measurement(
        measurement_id=f"{name}-{minute:g}",
        study=STUDY,
        trial=name,
        configuration=Configuration.of(
            "llama", {"batch": 8, "precision": "bf16"}, OperatingPoint(sm_clock_mhz=clock_mhz)
        ),
        phase=phase,
        unit="token",
        device=board(index),
        windows=(window,) * num_windows,
        idle=EnergyWindow(
            start_s=0.0, duration_s=5.0, energy_j=400.0, energy_u_j=1.0, source="counter"
        ),
        observed=Observed(
            sm_clock_mhz=float(clock),
            mem_clock_mhz=3201.0,
            temperature_start_c=55.0,
            temperature_stop_c=56.0,
            power_cap_share=0.0,
            thermal_share=0.0,
        ),
        findings=tuple(findings),
        provenance=provenance(minute),
        repeat=repeat,
    )
    return replace(made, **changes)


def sweep(clocks_mhz: Iterable[int], **changes):
    """Make a sweep in shuffled blocks with sentinels; energies scatter, boards differ."""
    plan = {name: changes.pop(name) for name in VISIT_OPTIONS if name in changes}
    return [measurement(**visit, **changes) for visit in visits(clocks_mhz, **plan)]


def visits(
    clocks_mhz: Iterable[int],
    *,
    repeats=3,
    num_boards=2,
    noise=0.005,
    board_spread=0.03,
    sentinel_every=8,
    drift_per_minute=0.0,
    seed=0,
):
    """What each measurement of a sweep is of, in order, and by how much it is off."""
    random = Random(seed)
    gains = [random.gauss(0, board_spread) for _ in range(num_boards)]
    made = []
    for repeat in range(repeats):
        block = [None, *clocks_mhz]
        random.shuffle(block)
        for clock in block:
            if len(made) % sentinel_every == 0:
                made.append((None, repeat, True))
            made.append((clock, repeat, False))
    turn = count()
    boards = [next(turn) % num_boards if watch else random.randrange(num_boards)
              for _, _, watch in made]  # fmt: skip
    return [
        {
            "clock_mhz": clock,
            "index": index,
            "repeat": repeat,
            "sentinel": watch,
            "minute": minute,
            "energy_factor": exp(gains[index] + random.gauss(0, noise) + drift_per_minute * minute),
            "time_factor": exp(random.gauss(0, noise / 3)),
        }
        for minute, ((clock, repeat, watch), index) in enumerate(zip(made, boards, strict=True))
    ]


VISIT_OPTIONS = inspect.signature(visits).parameters.keys() - {"clocks_mhz"}


def record(**changes):
    return Record(
        measurement=measurement(**changes),
        trace=PowerTrace(t_s=np.arange(300) * 0.02, power_w=np.linspace(390.1, 400.7, 300)),
    )
