#!/usr/bin/env python
"""How far the slowdown of a request that is reported is off the true one, and within its interval.

Usage: python benchmarks/request_slowdown.py [--boards 4]

Simulated boards measure language models at the driver's clock and at lower ones, through
the whole procedure, as a search does; what each request truly takes follows from the simulator's
physics without noise. Prefill and decode slow down by different shares, so that it matters how
they are weighed. Each board is a study of its own, with its own traits and noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure

import joulelab
from joulelab.core.configuration import KnobValue
from joulelab.devices.simulated import DriverStore
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.engine import steady_load
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware.catalogue import GPUS
from joulelab.study.lab import Lab
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

_WARM_S = 60.0
"""Time after which board and sink are as warm as they get, to a tenth of a percent of time."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare reported slowdowns with true ones.

    Attributes:
        boards: Studies of each case.
    """

    boards: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program at the driver's clock and below.

    Attributes:
        gpu: In the catalogue.
        workload: What runs.
        knobs: Its settings that differ from the usual.
        clocks_mhz: Lower clocks.
    """

    gpu: str
    workload: str
    knobs: dict[str, KnobValue]
    clocks_mhz: tuple[int, ...]


CASES = (
    Case(
        gpu="h100_sxm",
        workload="llama",
        knobs={"model": "llama-3-8b", "batch": 128},
        clocks_mhz=(1410, 1080),
    ),
    Case(
        gpu="h200_sxm",
        workload="llama",
        knobs={"model": "llama-2-7b", "prompt_tokens": 2048},
        clocks_mhz=(1410, 1080),
    ),
    Case(
        gpu="a100_sxm",
        workload="llama",
        knobs={"model": "llama-2-7b", "prompt_tokens": 2048, "batch": 8},
        clocks_mhz=(1110, 810),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """A slowdown: as it is, as it is reported, and the interval of that."""

    true: float
    reported: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """All of it, in percent."""
        reported = f"{self.reported:.2%} ({self.low:.2%} to {self.high:.2%})"
        return f"truly {self.true:.2%}, reported {reported}"

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the true one."""
        return self.low <= self.true <= self.high


def slowdowns(case: Case, board: int) -> Iterator[Slowdown]:
    """Yield the slowdown at each lower clock on one board."""
    with TemporaryDirectory() as folder:
        DriverStore(Path(folder, "gpus")).create(case.gpu, seed=board)
        found = joulelab.search(
            case.workload,
            {"sm_clock_mhz": case.clocks_mhz},
            knobs=case.knobs,
            strategy="grid",
            lab=Lab(
                device="simulated",
                gpu=case.gpu,
                store=Path(folder, "gpus"),
                results_dir=Path(folder),
                progress=False,
            ),
        )
    compared = found.result.answer.compared
    usual_s = true_s(case, board, None)
    for each in found.result.problem.space:
        if each.point.sm_clock_mhz is not None and each in compared:
            ratio = compared[each].time_ratio
            yield Slowdown(
                true=true_s(case, board, each.point.sm_clock_mhz) / usual_s - 1.0,
                reported=ratio.value - 1.0,
                low=ratio.low - 1.0,
                high=ratio.high - 1.0,
            )


def true_s(case: Case, board: int, clock_mhz: int | None) -> float:
    """Return how long a request takes on a board without noise; ``None`` is the driver's clock.

    The power cap must not hold the clock that is asked for.
    """
    program = WORKLOADS[case.workload].from_knobs(case.knobs)
    spec, request = GPUS[case.gpu], program.request
    quiet = replace(Board.of(board, spec), noise=0.0, run_noise=0.0, spell_noise=0.0)
    return sum(
        (1.0 if request is None else request.units[phase.phase])
        * (
            steady_load(spec, phase, board=quiet, warmup_s=_WARM_S).time_per_unit_s
            if clock_mhz is None
            else PhaseModel(spec, phase).at(clock_mhz, spec.mem_clocks_mhz[0]).duration_s
            / phase.work
        )
        for phase in cached_cost(program).phases
    )


def figures(settings: Settings | None = None) -> Iterator[Figure]:
    """Yield the figures; prints every slowdown on the way."""
    settings, every = settings or Settings(), []
    for case in CASES:
        for board in range(settings.boards):
            for each in slowdowns(case, board):
                print(f"{case.gpu} {case.knobs}: {each.words}", flush=True)
                every.append(each)
    how = f"{len(every)} slowdowns, {len(CASES)} programs on {settings.boards} simulated boards"
    off = max(abs(each.reported - each.true) for each in every)
    yield share_figure("slowdown of a request: reported less true, most", off, 1.0, how)
    missed = float(np.mean([not each.is_held for each in every]))
    yield share_figure("true slowdown beyond the 95 % interval", missed, 10.0, how)


if __name__ == "__main__":
    print_figures(list(figures(tyro.cli(Settings, description=__doc__))))
