"""``joulelab estimate`` and ``memory``: what models cost on devices, before anything runs."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from joulelab.analysis.estimates.detail import (
    detail,
    fit_sentence,
    fits_table,
    hints_table,
    memory_table,
)
from joulelab.analysis.estimates.export import SUFFIXES, cells_answer
from joulelab.analysis.estimates.kernels import event_table, group_table
from joulelab.analysis.estimates.overview import answers, overview
from joulelab.analysis.estimates.wording import asked, cell_name
from joulelab.analysis.page import Output
from joulelab.analysis.table import Frame, check_target
from joulelab.cli import words
from joulelab.cli.terminal import Printing, progress, terminal
from joulelab.core.point import OperatingPoint
from joulelab.estimator.api import Fit, fits, matrix
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import Cell, Question
from joulelab.estimator.savings import memory_hints, with_opportunities
from joulelab.tracking.mlflow_registry import reference, store_of

MAX_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(Printing):
    """What every command asks about."""

    # Models, also as the first word: names that `joulelab models` lists, timm:NAME,
    # hf:TYPE?option=value, workload:NAME, or path.py:Class of a file of yours, which also defines
    # example_inputs(batch). Such a file is executed.
    model: words.Names
    device: words.Names  # Devices that `joulelab processors` lists.
    # Power modes of Jetson modules, such as 15w,30w,50w or maxn: clocks, cores online and budget.
    # By default all that the module has.
    power_mode: words.Formats = None
    # Number formats: fp64, fp32, tf32, fp16, bf16, fp8, int8, int4. By default the usual one of
    # each device.
    precision: words.Formats = None
    batch: words.Numbers = "1"  # Batch sizes.
    num_devices: int = 1  # Devices that share each model by tensor parallelism.
    training: bool = False  # Take a training step instead of inference.
    # Settings of the model, such as prompt_tokens=512 or image_size=384.
    knob: words.KnobWords = ()
    # Host that launches kernels one by one: fast, typical or slow, or a file that `joulelab
    # calibrate --host` wrote. By default the typical one, with a range.
    host: str | None = None
    # File that `joulelab calibrate --board` wrote of a board of the device, or models:/NAME that
    # it registered, whose bandwidth, products, power and host are taken.
    calibration: Path | None = None
    # MLflow store of a registered calibration; by default that of studies.
    tracking_uri: str | None = None

    def question(
        self,
        *,
        mode: Mode = "eager",
        point: OperatingPoint = OperatingPoint(),  # noqa: B008 - frozen
        events: bool = False,
        strict: bool = False,
    ) -> Question:
        """Put the options into a question."""
        return Question(
            models=words.names(self.model, "model"),
            devices=words.devices(self.device, self.power_mode),
            precisions=() if self.precision is None else words.names(self.precision, "precision"),
            batches=words.numbers(self.batch, "batch"),
            mode=mode,
            point=point,
            num_devices=self.num_devices,
            training=self.training,
            knobs=words.knob_values(self.knob),
            host=self.host,
            calibration=self._calibration(),
            events=events,
            strict=strict,
        )

    def give(self, answer: Output, shown: Iterable[RenderableType], out: Path | None) -> None:
        """Print what is ``shown`` of an answer, or its JSON, and write it to a file."""
        if self.json:
            print(answer.json)
        else:
            terminal().print(*shown, sep="\n")
        if out is not None:
            answer.write(out)

    def _calibration(self) -> str | None:
        if self.calibration is None or reference(str(self.calibration)) is None:
            return None if self.calibration is None else str(self.calibration)
        from joulelab.tracking.mlflow_calibrations import calibration_file

        return str(calibration_file(self.calibration, store_of(self.tracking_uri)))


def in_bold(sentences: Iterable[str]) -> list[Text]:
    """Return the sentences that a reader needs first."""
    return [Text(sentence, style="bold") for sentence in sentences]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Asking):
    """Predict latency, energy and memory of models on devices; nothing is run on them.

    One combination is shown in full, several side by side. A model from a file of yours is
    built by executing that file.
    """

    # How kernels are launched: one by one from Python, as a captured graph, or fused by a compiler
    # and captured.
    mode: Mode = "eager"
    clock_mhz: int | None = None  # Core clock; by default the device's own.
    power_limit_w: float | None = None  # Power limit of each device; by default its own.
    per_group: bool = False  # Show the kernels that cost most, and write them all to a CSV file.
    events: bool = False  # Break energies down to architectural events.
    quick: bool = False  # Do not look for what would save energy, which needs some more traces.
    # Refuse operators without a cost formula, and whatever a device cannot do.
    strict: bool = False
    max_latency_s: float | None = None  # Longest time of one execution, for the exit code.
    max_energy_j: float | None = None  # Most energy of one execution.
    max_power_w: float | None = None  # Most mean power of all devices together.
    max_memory_b: float | None = None  # Most memory of each device.
    out: Path | None = None  # Write a file as well: .json, .csv, .md or .html.

    def run(self) -> int:
        """Predict, print and write; 1 if nothing fits its device's memory and the limits."""
        check_target(self.out, *SUFFIXES)
        words.check_limits(self.limits)
        cells = self.predict()
        answer = cells_answer(cells, per_group=self.per_group)
        self.give(answer, self.shown(cells), self.out)
        if self.out is not None and not self.json:
            print(f"Written to {self.out}")
        for cell in cells:
            for reason in words.missed(cell.estimate, self.limits) if cell.estimate else ():
                print(f"{cell_name(cell, cells)}: {reason}.", file=sys.stderr)
        return int(not words.keeping(cells, self.limits))

    @property
    def limits(self) -> words.Ceilings:
        """What the answer is to keep to."""
        return {
            "latency": self.max_latency_s,
            "energy": self.max_energy_j,
            "power": self.max_power_w,
            "memory": self.max_memory_b,
        }

    def predict(self) -> tuple[Cell, ...]:
        """Return every combination that was asked for."""
        point = OperatingPoint(sm_clock_mhz=self.clock_mhz, power_limit_w=self.power_limit_w)
        question = self.question(
            mode=self.mode, point=point, events=self.events, strict=self.strict
        )
        with progress() as report:
            cells = matrix(question, progress=report)
            if len(cells) > 1 or self.quick:
                return cells
            return (with_opportunities(question, cells[0], progress=report),)

    def shown(self, cells: Sequence[Cell]) -> Iterator[RenderableType]:
        """Lay out ``cells``: first the sentence a reader needs, then the tables."""
        if len(cells) == 1:
            yield detail(cells[0])
        else:
            yield from in_bold(answers(cells))
            yield overview(cells, terminal())
        for cell in cells:
            yield from self._parts(cell, cells)

    def _parts(self, cell: Cell, cells: Sequence[Cell]) -> Iterator[RenderableType]:
        if cell.estimate is None or not (self.per_group or self.events):
            return
        if len(cells) > 1:
            yield Text(f"\n{cell_name(cell, cells)}", style="bold")
        for phase in cell.estimate.phases:
            if self.per_group:
                yield group_table(phase, max_rows=MAX_ROWS)
            if self.events:
                yield event_table(phase.events, title=f"Events of {phase.phase}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Asking):
    """Show the memory that models need: parts, timeline, and the largest batch that fits."""

    out: Path | None = None  # Write a file as well: .json, .csv, .md or .html.
    quick: bool = False  # Do not look for what would save memory, which needs some more traces.
    # Most memory of each device, for the exit code; by default all that it has.
    max_memory_b: float | None = None

    def run(self) -> int:
        """Trace, print and write; 1 if something does not fit, or is above the limit."""
        check_target(self.out, *SUFFIXES)
        limits = {"memory": self.max_memory_b}
        words.check_limits(limits)
        question = self.question()
        with progress() as report:
            found = fits(question, progress=report)
            is_one = len(found) == 1 and not self.quick
            hints = memory_hints(question, found[0], progress=report) if is_one else ()
        answer = Output(
            content={
                "memory": [_fit_fields(fit) for fit in found],
                "hints": [asdict(hint) for hint in hints],
            },
            frame=Frame.of([row for fit in found for row in _fit_rows(fit)]),
            sentences=[fit_sentence(fit) for fit in found],
            tables=[fits_table(found), *([hints_table(hints)] if hints else [])],
        )
        phases = found[0].phases.items()
        in_full = [part for each in phases for part in (Text(), memory_table(*each))]
        below = [part for table in answer.tables[1:] for part in (Text(), table)]
        shown = answer.tables if len(found) > 1 else [*in_full, *below]
        self.give(answer, [*in_bold(answer.sentences), *shown], self.out)
        above = [words.over({"memory": fit.worst.peak_b}, limits) for fit in found]
        for fit, reasons in zip(found, above, strict=True):
            for reason in reasons:
                print(f"{fit.model} on {fit.processor.key}: {reason}.", file=sys.stderr)
        return int(any(above) or not all(fit.worst.fits for fit in found))


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
