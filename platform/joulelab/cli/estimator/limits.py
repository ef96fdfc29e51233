"""``joulelab estimate-sweep`` and ``joulelab memory``: the best clock, and the largest batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import RenderableType
from rich.text import Text

from joulelab.analysis.estimates.curves import (
    around_table,
    best_curve,
    optima_table,
    sweep_sentence,
)
from joulelab.analysis.estimates.detail import fit_sentence, fits_table, memory_table
from joulelab.analysis.estimates.export import ANSWER_SUFFIXES, Answer, write_answer
from joulelab.analysis.estimates.wording import asked
from joulelab.analysis.table import Frame, check_target
from joulelab.cli.estimator.estimate import Asking
from joulelab.cli.terminal import progress
from joulelab.cli.words import numbers
from joulelab.core.bounds import MOST_MHZ, check_range
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.api import Fit, fits
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import Curve, sweep
from joulelab.objectives import without_quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering(Asking):
    """A question whose answer is a few sentences and tables.

    Attributes:
        out: Write a file as well: .json, .csv, .md or .html.
    """

    out: Path | None = None

    def give(self, answer: Answer, shown: Sequence[RenderableType]) -> None:
        """Print sentences and what is ``shown`` below them, and write the file."""
        sentences = [Text(sentence, style="bold") for sentence in answer.sentences]
        self.show(answer.content, lambda: [*sentences, *shown])
        if self.out is not None:
            write_answer(answer, self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Answering):
    """Predict over core clocks, and say which clock has the lowest EDP; nothing is run.

    `experiments/dvfs_sweep.py` measures the same.

    Attributes:
        objective: What is to be low: edp, ed2p, energy, time, or that of a plug-in.
        clock_mhz: Core clocks: 600,1200 or 600:1980:15 for first, last and step. By default
            the whole range of each device.
        mode: How kernels are launched.
        power_limit_w: Power limit of each device; by default its own.
    """

    objective: str = "edp"
    clock_mhz: Annotated[str | None, tyro.conf.arg(metavar="MHZ[,MHZ...]")] = None
    mode: Mode = "eager"
    power_limit_w: float | None = None

    def run(self) -> int:
        """Predict, print and write."""
        check_target(self.out, *ANSWER_SUFFIXES)
        without_quality(self.objective)
        question = self.question(
            mode=self.mode, point=OperatingPoint(power_limit_w=self.power_limit_w)
        )
        clocks = () if self.clock_mhz is None else clock_list(self.clock_mhz)
        with progress() as report:
            curves = sweep(question, clocks_mhz=clocks, progress=report)
        aim = self.objective
        answer = Answer(
            content={"curves": [_curve_fields(curve, aim) for curve in curves]},
            frame=Frame.of([row for curve in curves for row in _curve_rows(curve, aim)]),
            sentences=[sweep_sentence(curves, aim)],
            tables=[optima_table(curves, aim), around_table(best_curve(curves, aim), aim)],
        )
        self.give(answer, answer.tables)
        return 0


def clock_list(words: str) -> tuple[int, ...]:
    """Read ``"600,1200"`` or ``"600:1980:15"``.

    Raises:
        ConfigError: If it is neither.
    """
    if ":" not in words:
        return numbers(words, "clock-mhz")
    parts = numbers(words.replace(":", ","), "clock-mhz")
    if len(parts) != 3 or parts[2] < 1 or parts[0] > parts[1]:
        raise ConfigError(f"--clock-mhz takes first:last:step, ascending, got {words!r}.")
    for part in parts:
        check_range("--clock-mhz", part, 1, MOST_MHZ)
    return tuple(range(parts[0], parts[1] + 1, parts[2]))


def _curve_fields(curve: Curve, objective: str) -> dict[str, object]:
    content = {**asdict(curve), "device": curve.processor.key}
    del content["processor"]
    return {**content, "best_mhz": curve.clocks_mhz[curve.best(objective)]}


def _curve_rows(curve: Curve, objective: str) -> Iterator[Mapping[str, object]]:
    best, costs = curve.best(objective), curve.costs(objective)
    for place, clock_mhz in enumerate(curve.clocks_mhz):
        yield {
            **asked(curve),
            "phase": curve.phase,
            "work": curve.work,
            "unit": curve.unit,
            "clock_mhz": clock_mhz,
            "latency_s": curve.latency_s[place],
            "energy_j": curve.energy_j[place],
            "power_w": curve.energy_j[place] / curve.latency_s[place],
            "cost_over_best": costs[place] / costs[best],
            "is_default": int(place == curve.default),
            "is_best": int(place == best),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Answering):
    """Show the memory that models need: parts, timeline, and the largest batch that fits."""

    def run(self) -> int:
        """Trace, print and write; 1 if something does not fit."""
        check_target(self.out, *ANSWER_SUFFIXES)
        with progress() as report:
            found = fits(self.question(), progress=report)
        answer = Answer(
            content={"memory": [_fit_fields(fit) for fit in found]},
            frame=Frame.of([row for fit in found for row in _fit_rows(fit)]),
            sentences=[fit_sentence(fit) for fit in found],
            tables=[fits_table(found)],
        )
        phases = found[0].phases.items()
        in_full = [part for each in phases for part in (Text(), memory_table(*each))]
        self.give(answer, answer.tables if len(found) > 1 else in_full)
        return int(not all(fit.worst.fits for fit in found))


def _fit_rows(fit: Fit) -> Iterator[Mapping[str, object]]:
    for phase, memory in fit.phases.items():
        parts = asdict(memory)
        del parts["timeline_b"]
        yield {
            **asked(fit),
            "phase": phase,
            **parts,
            "peak_b": memory.peak_b,
            "fits": int(memory.fits),
            "largest_batch": fit.largest_batch,
        }


def _fit_fields(fit: Fit) -> dict[str, object]:
    return {
        **asked(fit),
        "fits": fit.worst.fits,
        "peak_b": fit.worst.peak_b,
        "largest_batch": fit.largest_batch,
        "phases": {name: asdict(memory) for name, memory in fit.phases.items()},
    }
