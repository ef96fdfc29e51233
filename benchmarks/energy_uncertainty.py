#!/usr/bin/env python
"""How sure is the energy of a window: a plain counter difference against ours.

    python benchmarks/energy_uncertainty.py [--data-dir ../shared/data]

Polls of an H200's energy counter under steady load, recorded together with the driver's 20-ms
power samples, are cut into random windows. The reference is the integral of the samples, scaled
once per recording to the counter. Errors are the scatter of the difference; ``error / u`` has a
standard deviation of 1 if the uncertainty that we state is honest.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from figures import Figure

from joulelab.core.counter import EnergyCounter
from joulelab.core.ticks import CounterPolls

LOADS = ("bf16_1024", "bf16_8192")
LENGTHS_S = (0.2, 0.5, 1.0, 2.0, 5.0)
NUM_WINDOWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        data_dir: Folder with ``h200_steady_*_polls.csv`` and ``*_samples.csv``.
    """

    data_dir: Path = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Errors of windows of one length, relative to their energy.

    Attributes:
        load: Name of the recording.
        length_s: Mean length of the windows; each differs by up to half a tick.
        naive_sd: Standard deviation of the error of a plain counter difference.
        sd: The same for the interpolated counter.
        p95: 95th percentile of its absolute error.
        stated_u: Mean stated standard uncertainty.
        error_over_u: Standard deviation of error over stated uncertainty.
    """

    load: str
    length_s: float
    naive_sd: float
    sd: float
    p95: float
    stated_u: float
    error_over_u: float


def rows(data_dir: Path, load: str, *, num_windows: int = NUM_WINDOWS) -> list[Row]:
    """Compare both methods on one recording, for every window length."""
    start_s, counter_mj, _, stop_s = np.loadtxt(
        data_dir / f"h200_steady_{load}_polls.csv", delimiter=",", skiprows=1, unpack=True
    )
    polls = CounterPolls(before_s=start_s, after_s=stop_s, energy_j=counter_mj / 1e3)
    counter = EnergyCounter(polls)
    sample_s, sample_j = _integrated(data_dir / f"h200_steady_{load}_samples.csv")
    first, last = counter.ticks.time_s[[5, -5]]
    scale = counter.window(first, last).energy_j / np.diff(
        np.interp([first, last], sample_s, sample_j)
    )
    random = np.random.default_rng(0)
    table = []
    for length_s in LENGTHS_S:
        lengths_s = length_s + random.uniform(-0.05, 0.05, num_windows)
        begins_s = random.uniform(first, last - length_s - 0.1, num_windows)
        ends_s = begins_s + lengths_s
        reference_j = scale * (
            np.interp(ends_s, sample_s, sample_j) - np.interp(begins_s, sample_s, sample_j)
        )
        windows = [counter.window(*edges) for edges in zip(begins_s, ends_s, strict=True)]
        error_j = np.array([window.energy_j for window in windows]) - reference_j
        u_j = np.array([window.energy_u_j for window in windows])
        naive_j = _last_read_j(polls, ends_s) - _last_read_j(polls, begins_s) - reference_j
        table.append(
            Row(
                load=load,
                length_s=length_s,
                naive_sd=float((naive_j / reference_j).std()),
                sd=float((error_j / reference_j).std()),
                p95=float(np.quantile(abs(error_j / reference_j), 0.95)),
                stated_u=float((u_j / reference_j).mean()),
                error_over_u=float((error_j / u_j).std()),
            )
        )
    return table


def _integrated(path: Path) -> tuple[np.ndarray, np.ndarray]:
    time_s, power_mw = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    new = np.r_[True, np.diff(time_s) > 0.5e-3]  # overlapping buffers repeat their samples
    time_s, power_w = time_s[new], power_mw[new] / 1e3
    energy_j = np.cumsum(np.diff(time_s) * (power_w[1:] + power_w[:-1]) / 2)
    return time_s, np.r_[0.0, energy_j]


def _last_read_j(polls: CounterPolls, at_s: np.ndarray) -> np.ndarray:
    return polls.energy_j[np.searchsorted(polls.after_s, at_s, side="right") - 1]


def figures() -> list[Figure]:
    """Return the promised figure: the error of a 1-s window, the worse of the two loads."""
    errors = [row.sd for load in LOADS for row in rows(Settings().data_dir, load) if _is_1_s(row)]
    return [
        Figure(
            name="error of the energy of a 1-s window (standard deviation)",
            measured=100 * max(errors),
            promised=0.5,
            unit="%",
            how=f"recorded polls of an H200, {NUM_WINDOWS} random windows on each of two loads",
        )
    ]


def _is_1_s(row: Row) -> bool:
    return row.length_s == 1.0


def main(settings: Settings) -> None:
    """Print the table."""
    print("load       window    naive SD      SD     p95  stated u  error/u")
    for load in LOADS:
        for row in rows(settings.data_dir, load):
            print(
                f"{row.load:10} {row.length_s:4.1f} s  {row.naive_sd:9.2%} {row.sd:7.2%} "
                f"{row.p95:7.2%} {row.stated_u:9.2%} {row.error_over_u:8.2f}"
            )


if __name__ == "__main__":
    main(tyro.cli(Settings))
