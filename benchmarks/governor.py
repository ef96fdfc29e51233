#!/usr/bin/env python
"""What a governor saves of what could be saved, on six loads that simulated GPUs play.

Usage: python benchmarks/governor.py [--gpus h200_sxm a100_sxm] [--boards 0 1] [--seed 1] [--priced]

Everything is by the simulator's own account, not by what the governor reports. A strategy's share
is its saving of EDP over that of an oracle, which knows true times and powers, and changes the
clock at the look after a change. Governors learn from nothing, and what that costs is in it. They
look as often however busy this machine is, and what that takes is a figure of its own. ``--priced``
bills looks with what an H200's driver takes for them, within 1 % of a core. A minute breaks the
limit if its work takes 5 % less at the driver's own clocks. The reaction to a change of phase, once
the first two minutes have been learned from, is the time until a clock near that which most of the
phase has is in force, where that is far from the one before; of that, until it was
asked for is the governor's part, and the rest the board's.
"""

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from joulelab.core.device import DeviceState
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import ActivityProbe
from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.store import DriverState
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.loads import LOADS, SimulatedLoad, stages_of
from joulelab.governor.strategy import Rules

T = TypeVar("T")

STRATEGY_NAMES = ("model", "bandit", "race-to-idle")
LIMIT = 0.05
STEADY = ("prefill", "decode")
_LOOK_S, _LEARNING_S, _NEAR_MHZ = 0.01, 120.0, 60


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is played.

    Attributes:
        gpus: Catalogue keys of the GPUs.
        boards: Boards of each, by number, which differ as boards of a kind do.
        seed: Of the times that stages take.
        duration_s: How long each load is played, in virtual time.
        priced: Whether looks cost what they do at an H200, within a budget of 1 % of a core.
    """

    gpus: tuple[str, ...] = ("h200_sxm", "a100_sxm")
    boards: tuple[int, ...] = (0,)
    seed: int = 1
    duration_s: float = 600.0
    priced: bool = False


@dataclass(kw_only=True)
class Played:
    """A load that was played.

    Attributes:
        units_s: Time of an execution of each phase.
        minutes: Executions of each phase by the end of each minute.
        clocks_mhz: SM clock every 10 ms under the model; empty under others.
        asked_s: When a clock was asked for or released.
        cpu_share: Share of a core that the governor took, the simulated GPU's part included.
        device_share: What of that was within calls of the simulated GPU.
    """

    energy_j: float
    duration_s: float
    load: SimulatedLoad
    minutes: list[dict[str, float]]
    clocks_mhz: list[tuple[float, int]] = field(default_factory=list)
    asked_s: list[float] = field(default_factory=list)
    cpu_share: float = 0.0
    device_share: float = 0.0

    @property
    def units_s(self) -> dict[str, float]:
        """Time of an execution of each phase."""
        times_s: dict[str, float] = defaultdict(float)
        for spell in self.load.spells:
            times_s[spell.phase] += spell.stop_s - spell.start_s
        return {phase: times_s[phase] / work for phase, work in self.load.work.items() if work}

    def edp(self, usual: "Played") -> float:
        """Return the EDP of the work over that by default."""
        work_s = _work_s(self.load.work, usual)
        energy = self.energy_j / work_s * usual.duration_s / usual.energy_j
        return energy * self.duration_s / work_s

    def slowdowns(self, usual: "Played") -> list[float]:
        """Return by how much each minute was longer than its work takes by default."""
        marks = [_work_s(done, usual) for done in self.minutes]
        return [60.0 / (after - before) - 1.0 for before, after in itertools.pairwise(marks)]

    def reactions_s(self) -> list[tuple[float, float]]:
        """Return how long phases waited for their clock, where that was another's before.

        In all, and until it was asked for.
        """
        times_s, clocks_mhz = (np.array(column) for column in zip(*self.clocks_mhz, strict=True))
        found = []
        for spell in self.load.spells:
            within = clocks_mhz[(times_s >= spell.start_s) & (times_s < spell.stop_s - _LOOK_S)]
            if spell.start_s < times_s[0] + _LEARNING_S or len(within) * _LOOK_S < 0.8:
                continue
            is_near = np.abs(within - np.median(within[len(within) // 2 :])) <= _NEAR_MHZ
            if abs(within[0] - np.median(within[len(within) // 2 :])) > 2 * _NEAR_MHZ:
                waited_s = float(_LOOK_S * is_near.argmax())
                asked_s = [each for each in self.asked_s if each <= spell.start_s + waited_s]
                found.append((waited_s, max(0.0, max(asked_s, default=0.0) - spell.start_s)))
        return found


STATE_S, CLOCK_S, POWER_S, SAMPLES_S = 0.175e-3, 0.05e-3, 0.085e-3, 1.0e-3
"""What an H200's driver (580.159) takes of a core for a look's calls; the clock's is assumed."""
MARK_S, METRICS_S = 0.25e-3, 1.65e-3


class Metered(SimulatedDevice):
    """Counts what a governor's looks at it and changes of its clock take of a core.

    Attributes:
        cpu_s: CPU time.
        price_s: What an H200's driver would have taken.
    """

    def __init__(self, driver: DriverState) -> None:
        super().__init__(driver)
        self.cpu_s = self.price_s = 0.0

    def timed(self, call: Callable[[], T], price_s: float = 0.0) -> T:
        """Return what a call does."""
        cpu_s = time.thread_time()
        answer = call()
        self.cpu_s += time.thread_time() - cpu_s
        self.price_s += price_s
        return answer

    @override
    def read_brief_state(self) -> DeviceState:
        return self.timed(super().read_brief_state, STATE_S)

    @override
    def read_sm_clock_mhz(self) -> int:
        return self.timed(lambda: self.read_state().sm_clock_mhz, CLOCK_S)

    @override
    def read_power_w(self) -> float:
        return self.timed(super().read_power_w, POWER_S)

    @override
    def read_power_samples(self) -> PowerTrace:
        return self.timed(super().read_power_samples, SAMPLES_S)

    @override
    def activity(self) -> ActivityProbe:
        probe = super().activity()
        mark, read_to_mark = probe.mark, probe.read_to_mark  # a read is both
        probe.mark = lambda: self.timed(mark, MARK_S)  # type: ignore[method-assign]
        probe.read_to_mark = lambda: self.timed(  # type: ignore[method-assign]
            read_to_mark, METRICS_S
        )
        return probe


class Billed(Governor):
    """Bills its looks with what an H200's driver takes, in place of what the simulator does."""

    _billed_s = 0.0

    @override
    def _bill(self, cpu_s: float, _call_s: float) -> None:
        assert isinstance(self.device, Metered)  # noqa: S101 - it is that of this file
        more_s = self.device.price_s - self.device.cpu_s
        super()._bill(cpu_s + more_s - self._billed_s, _call_s)
        self._billed_s = more_s


class Noting(OwnControl):
    """Notes when a clock is asked for, or released."""

    def __init__(self, device: Metered) -> None:
        super().__init__(device)
        self._metered, self._now_s, self.asked_s = device, device.clock.now_s, list[float]()

    @override
    def apply(self, point: OperatingPoint) -> Receipt:
        self.asked_s.append(self._now_s())
        return self._metered.timed(lambda: super(Noting, self).apply(point))

    @override
    def reset(self) -> None:
        self.asked_s.append(self._now_s())
        self._metered.timed(super().reset)


def _work_s(work: dict[str, float], usual: Played) -> float:
    units_s = usual.units_s
    return sum(done * units_s[phase] for phase, done in work.items() if done)


def play(
    settings: Settings, store: str, gpu: str, board: int, load: str, *, strategy: str | None
) -> Played:
    """Play a load on a fresh board, under a strategy or the driver alone."""
    driver = DriverStore(store).create(gpu, board)
    device = Metered(driver)
    played = SimulatedLoad(
        device, stages_of(load), seed=settings.seed, board=Board.of(driver.seed, driver.spec)
    )
    control = Noting(device)
    governor = None
    if strategy is not None:
        budget = 0.01 if settings.priced else 1.0
        rules = Rules(off_share=0.0, max_slowdown=LIMIT, cpu_budget=budget)
        chosen = STRATEGIES[strategy](rules)
        chosen.watch(played)
        kind = Billed if settings.priced else Governor
        governor = kind(device, control, chosen, rules).start()
    minutes: list[dict[str, float]] = []
    clocks_mhz: list[tuple[float, int]] = []
    device.clock.every(60.0, lambda: minutes.append(dict(played.work)))
    if strategy == "model":
        device.clock.every(
            _LOOK_S,
            lambda: clocks_mhz.append((device.clock.now_s(), device.read_state().sm_clock_mhz)),
        )
    before_j, start_s = device.read_energy_j(), device.clock.now_s()
    played.play(settings.duration_s)
    found = Played(
        energy_j=device.read_energy_j() - before_j,
        duration_s=device.clock.now_s() - start_s,
        load=played,
        minutes=minutes,
        clocks_mhz=clocks_mhz,
        asked_s=control.asked_s,
    )
    if governor is not None:
        governor.stop()
        governor.raise_if_failed()
        found.cpu_share = governor.cpu_s / found.duration_s
        of_device_s = device.price_s if settings.priced else device.cpu_s
        found.device_share = of_device_s / found.duration_s
    return found


@dataclass(frozen=True, kw_only=True)
class Row:
    """A load on a board: EDP savings of the oracle and of each strategy, and minutes of each."""

    gpu: str
    board: int
    load: str
    oracle: float
    savings: dict[str, float]
    slowdowns: dict[str, list[float]]
    cpu_share: float
    own_cpu_share: float
    reactions_s: list[tuple[float, float]]

    def share(self, strategy: str) -> float | None:
        """Return the saving over the oracle's; ``None`` where that saves under half a percent."""
        return self.savings[strategy] / self.oracle if self.oracle > 0.005 else None


def rows(settings: Settings, store: str) -> list[Row]:
    """Play everything."""
    return [
        row_of(settings, store, *case)
        for case in itertools.product(settings.gpus, settings.boards, LOADS)
    ]


def row_of(settings: Settings, store: str, gpu: str, board: int, load: str) -> Row:
    """Play a load under the driver alone, the oracle and each strategy."""
    made = {
        name: play(settings, store, gpu, board, load, strategy=name)
        for name in (None, "oracle", *STRATEGY_NAMES)
    }
    usual, model = made.pop(None), made["model"]
    savings = {name: 1 - played.edp(usual) for name, played in made.items()}
    return Row(
        gpu=gpu,
        board=board,
        load=load,
        oracle=savings["oracle"],
        savings=savings,
        slowdowns={name: made[name].slowdowns(usual) for name in STRATEGY_NAMES},
        cpu_share=model.cpu_share,
        own_cpu_share=model.cpu_share - model.device_share,
        reactions_s=model.reactions_s(),
    )


def _table(found: Sequence[Row]) -> Table:
    table = Table(title="Saving of EDP (share of the oracle's)", title_justify="left")
    for head in ("GPU", "board", "load", "oracle", *STRATEGY_NAMES, "slowest minute (model)"):
        table.add_column(head, justify="left" if head in ("GPU", "load") else "right")
    for row in found:
        cells = []
        for name in STRATEGY_NAMES:
            share = row.share(name)
            told = "" if share is None else f" ({100 * share:.0f} %)"
            cells.append(f"{100 * row.savings[name]:.1f} %{told}")
        worst = max(row.slowdowns["model"])
        head = row.gpu, str(row.board), row.load, f"{100 * row.oracle:.1f} %"
        table.add_row(*head, *cells, f"{100 * worst:.1f} %")
    return table


def figures(settings: Settings | None = None) -> list[Figure]:
    """Measure what is promised of the model."""
    settings = settings or Settings()
    with tempfile.TemporaryDirectory(dir="/tmp") as store:
        found = rows(settings, store)
    Console().print(_table(found))
    shares = [share for row in found if (share := row.share("model")) is not None]
    minutes = [each for row in found for each in row.slowdowns["model"]]
    waits_s, until_asked_s = zip(*(each for row in found for each in row.reactions_s), strict=True)
    losses = [-row.savings["model"] for row in found if row.load in STEADY]
    how = (
        f"{len(found)} loads of {settings.duration_s:g} s on {', '.join(settings.gpus)}, boards "
        f"{', '.join(map(str, settings.boards))}, seed {settings.seed}, simulated"
    )
    return [
        share_figure(
            "what the model misses of the oracle's saving, median load", 1 - median(shares), 10, how
        ),
        share_figure("the same of the worst load", 1 - min(shares), 10, how),
        share_figure(
            "minutes slower than the limit",
            sum(each > LIMIT for each in minutes) / len(minutes),
            1,
            f"{len(minutes)} minutes",
        ),
        Figure(
            name="reaction to a change of phase, 99 % of them",
            measured=1000 * float(np.quantile(waits_s, 0.99)),
            promised=300,
            unit="ms",
            how=f"{len(waits_s)} changes that ask for another clock; median "
            f"{1000 * median(waits_s):.0f} ms, 95 % {1000 * float(np.quantile(waits_s, 0.95)):.0f} "
            f"ms, {100 * np.mean(np.array(waits_s) <= 0.3):.1f} % "
            "within 300 ms; 1 % of simulated clock changes take up to 500",
        ),
        Figure(
            name="of that until the governor asked for the clock, 99 % of them",
            measured=1000 * float(np.quantile(until_asked_s, 0.99)),
            promised=300,
            unit="ms",
            how=f"the same changes; longest {1000 * max(until_asked_s):.0f} ms",
        ),
        share_figure(
            "share of a core, a simulated GPU's part included",
            max(row.cpu_share for row in found),
            1,
            "looks ten times a second, by the load that takes most; a real driver's calls take "
            "what they take",
        ),
        share_figure(
            "the same without what is within calls of the simulated GPU",
            max(row.own_cpu_share for row in found),
            1,
            "recognising and choosing, by the load that takes most",
        ),
        share_figure("worse than the driver's own clock on steady loads", max(losses), 0.5, how),
    ]


if __name__ == "__main__":
    started_s = time.perf_counter()
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
    print(f"{time.perf_counter() - started_s:.0f} s")
