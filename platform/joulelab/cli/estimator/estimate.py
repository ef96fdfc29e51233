"""``joulelab estimate`` and its kin: what models cost on devices, before anything runs."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from typing_extensions import override

from joulelab.analysis.estimates.detail import detail
from joulelab.analysis.estimates.export import SUFFIXES, to_json, write_cells
from joulelab.analysis.estimates.kernels import event_table, group_table
from joulelab.analysis.estimates.overview import answers, overview
from joulelab.analysis.estimates.wording import cell_name
from joulelab.analysis.table import check_target
from joulelab.cli import words
from joulelab.cli.terminal import Printing, progress, terminal
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.api import matrix
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import Cell, Question
from joulelab.estimator.savings import with_opportunities
from joulelab.hardware.power_modes import find_processor
from joulelab.hardware.processor import Family

MAX_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(Printing):
    """What every command asks about.

    Attributes:
        model: Models: names that `joulelab models` lists, timm:NAME, hf:TYPE?option=value,
            workload:NAME, or path.py:Class of a file of yours, which also defines
            example_inputs(batch). Such a file is executed.
        device: Devices that `joulelab processors` lists.
        power_mode: Power modes of Jetson modules, such as 15w,30w,50w or maxn: clocks, cores online
            and budget. By default all that the module has.
        precision: Number formats: fp64, fp32, tf32, fp16, bf16, fp8, int8, int4. By default the
            usual one of each device.
        batch: Batch sizes.
        num_devices: Devices that share each model by tensor parallelism.
        training: Take a training step instead of inference.
        knob: Settings of the model, such as prompt_tokens=512 or image_size=384.
        host: Host that launches kernels one by one: fast, typical or slow, or a file that
            `joulelab calibrate --host` wrote. By default the typical one, with a range.
        calibration: File that `joulelab calibrate --board` wrote of a board of the device, whose
            bandwidth, products, power and host are taken.
    """

    model: words.Names
    device: words.Names
    power_mode: words.Formats = None
    precision: words.Formats = None
    batch: words.Numbers = "1"
    num_devices: int = 1
    training: bool = False
    knob: words.KnobWords = ()
    host: str | None = None
    calibration: Path | None = None

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
            calibration=None if self.calibration is None else str(self.calibration),
            events=events,
            strict=strict,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Asking):
    """Predict latency, energy and memory of models on devices; nothing is run on them.

    One combination is shown in full, several side by side. A model from a file of yours is
    built by executing that file.

    Attributes:
        mode: How kernels are launched: one by one from Python, as a captured graph, or fused by
            a compiler and captured.
        clock_mhz: Core clock; by default the device's own.
        power_limit_w: Power limit of each device; by default its own.
        per_group: Show the kernels that cost most, and write them all to a CSV file.
        events: Break energies down to architectural events.
        quick: Do not look for what would save energy, which needs some more traces.
        strict: Refuse operators without a cost formula, and whatever a device cannot do.
        max_latency_s: Longest time of one execution, for the exit code.
        max_energy_j: Most energy of one execution.
        max_power_w: Most mean power of all devices together.
        max_memory_b: Most memory of each device.
        out: Write a file as well: .json, .csv, .md or .html.
    """

    mode: Mode = "eager"
    clock_mhz: int | None = None
    power_limit_w: float | None = None
    per_group: bool = False
    events: bool = False
    quick: bool = False
    strict: bool = False
    max_latency_s: float | None = None
    max_energy_j: float | None = None
    max_power_w: float | None = None
    max_memory_b: float | None = None
    out: Path | None = None

    def run(self) -> int:
        """Predict, print and write; 1 if nothing fits its device's memory and the limits."""
        check_target(self.out, *SUFFIXES)
        words.check_limits(self.limits)
        cells = self.predict()
        if self.json:
            print(to_json(cells))
        else:
            terminal().print(*self.shown(cells), sep="\n")
        if self.out is not None:
            write_cells(cells, self.out, per_group=self.per_group)
            if not self.json:
                print(f"Written to {self.out}")
        for cell in cells:
            for reason in words.missed(cell.estimate, self.limits) if cell.estimate else ():
                print(f"{cell_name(cell, cells)}: {reason}.", file=sys.stderr)
        return int(not words.keeping(cells, self.limits))

    @property
    def limits(self) -> words.Limits:
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
            yield from (Text(sentence, style="bold") for sentence in answers(cells))
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
class FamilyEstimate(Estimate):
    """An estimate down to architectural events, on devices of one family.

    Attributes:
        events: Break energies down to architectural events.
    """

    family: ClassVar[Family]

    events: bool = True

    @override
    def predict(self) -> tuple[Cell, ...]:
        for name in words.names(self.device, "device"):
            found = find_processor(name).family
            if found != self.family:
                raise ConfigError(
                    f"{name} is a {found.upper()} and this command is for {self.family.upper()}s; "
                    f"use `joulelab estimate-{found}`."
                )
        return Estimate.predict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateCpu(FamilyEstimate):
    """Predict models on CPUs, down to the events of a stored program.

    Its pipeline, register file, caches and memory, scalar, vector and matrix units, branches.

    Attributes:
        device: CPUs that `joulelab processors --family cpu` lists.
    """

    family: ClassVar[Family] = "cpu"
    device: words.Names = "xeon_8490h"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateGpu(FamilyEstimate):
    """Predict models on GPUs, down to the events of SIMT execution.

    Its tensor and vector units, register file, shared memory, L2 and memory, scheduling,
    divergence, coalescing, barriers, launches.

    Attributes:
        device: GPUs that `joulelab processors --family gpu` lists.
    """

    family: ClassVar[Family] = "gpu"
    device: words.Names = "h200_sxm"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateTpu(FamilyEstimate):
    """Predict models on TPUs, down to the events of systolic arrays.

    Its arrays, weight tiles, activation stream, accumulators, unified buffer, vector and scalar
    units, control, filling and draining.

    Attributes:
        device: TPUs that `joulelab processors --family tpu` lists.
    """

    family: ClassVar[Family] = "tpu"
    device: words.Names = "tpu_v4"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateKpu(FamilyEstimate):
    """Predict models on KPUs, down to the events of domain flow; projected, without silicon.

    Its tiles, tokens in and out, local and shared memories, network on chip, streamers and DMA,
    the loading of programs.

    Attributes:
        device: KPUs that `joulelab processors --family kpu` lists.
    """

    family: ClassVar[Family] = "kpu"
    device: words.Names = "kpu_t256"
