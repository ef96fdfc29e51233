"""``joulelab measure`` and ``quality``: what a workload costs, and what its outputs are worth."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Annotated, Any, Generic, TypeVar

import tyro

from joulelab.analysis.measurement_lines import report_lines
from joulelab.analysis.table import fitting, width_of
from joulelab.bench import Bench
from joulelab.cli.options import ClockOptions, OneGpu
from joulelab.cli.quality_report import LESS_WANTED, Scored, as_json, quality_table
from joulelab.cli.study import parse_with_workload
from joulelab.cli.terminal import Printing, progress, terminal
from joulelab.cli.words import KnobWords, Variants, names, read_variants
from joulelab.core.codec import to_json
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.device import DeviceAddress
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.choice import open_device
from joulelab.errors import ConfigError, DeviceNotFoundError, JouleLabError
from joulelab.estimator.question import knob_value
from joulelab.guard import ObserveOnly
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.base import Metric
from joulelab.quality.evaluation import Progress, evaluate, varying
from joulelab.study.abstract_lab import check_guard_socket
from joulelab.tracking.vocabulary import metrics
from joulelab.workloads import WORKLOADS

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(OneGpu, ClockOptions, Printing, Generic[Settings]):
    """Measure one configuration of a workload on one GPU, each phase with its error bar.

    FILE.py:NAME or package.module:NAME in place of a workload is a function or class of yours.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    procedure: Procedure = field(default_factory=Procedure)  # How to measure.

    def run(self) -> int:
        """Measure and print; 1 if a phase broke the validity contract."""
        name = WORKLOADS.name_of(self.workload)
        configuration = Configuration.of(name, self.workload, self.point)
        check_guard_socket(self.guard_socket)
        address = self.address()
        trial = Trial(study="measure", name=configuration.point.label, configuration=configuration)
        with (
            closing(open_device(address)) as device,
            self.control(address, device, note="joulelab measure") as control,
            progress() as tell,
            Bench(device, control=control, procedure=self.procedure, report=tell) as bench,
        ):
            records = bench.measure(trial)
        rows = [
            {**json.loads(to_json(m)), "valid": m.valid, "metrics": metrics(m)}
            for m in (record.measurement for record in records)
        ]
        self.show({"measurements": rows}, lambda: report_lines(records))
        return int(not all(record.measurement.valid for record in records))


parse = partial(parse_with_workload, Measure, prog="joulelab measure")
"""Reads the command line; each workload's settings become its options."""


Names = Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME...]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality(OneGpu, Printing, Generic[Settings]):
    """Score what a workload puts out, and measure what that costs, over its configurations.

    The first value of every knob that varies is the reference. Retention is the share of its
    score that a configuration keeps: 1 is as good, more is better; its interval holds for other
    data of the same kind and size. Scores are kept on disk.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    precisions: Names = None  # Number formats to compare, the reference first.
    vary: Variants = ()  # Other knobs to vary, the reference's value first: steps=50,20.
    metrics: Names = None  # How to score; by default what needs neither downloads nor references.
    # Knobs of metrics: perplexity.stride_tokens=128, coherence.weights=FOLDER.
    metric: KnobWords = ()
    # Folder or file, or id of a data set on the hub, with what the workload takes: texts, prompts,
    # images, recordings or token ids; by default a small set that is shipped or generated, enough
    # to compare configurations but not to judge a network.
    data: str | None = None
    no_energy: bool = False  # Only score.
    # How to measure; at the driver's own clocks.
    procedure: Procedure = field(default_factory=Procedure)

    def run(self) -> int:
        """Score, measure and print; 1 if a score or an energy is missing."""
        name = WORKLOADS.name_of(self.workload)
        kind = SUBJECTS[name]
        settings = self._settings(name)
        metrics = self._metrics(kind.metrics)
        address = None if self.no_energy else self._address()  # before minutes of scoring
        with progress() as tell:
            rows = evaluate(name, settings, metrics, kind.read_data(self.data), progress=tell)
            costs = self._costs(name, settings, address, tell)
        differences = varying(settings)
        cases = [
            Scored(
                knobs=differences[index],
                configuration=Configuration.of(name, settings[index]),
                rows=rows[index * len(metrics) : (index + 1) * len(metrics)],
                cost=costs[index],
            )
            for index in range(len(settings))
        ]
        if self.json:
            print(as_json(cases))
        else:
            console = terminal()
            table = fitting(console, partial(quality_table, name, cases), LESS_WANTED)
            console.width = max(console.width, width_of(table, console))  # digits are not cut
            console.print(table)
        return int(not all(case.is_whole for case in cases))

    def _settings(self, name: str) -> list[Any]:
        variants: dict[str, Sequence[KnobValue]] = dict(read_variants(self.vary))
        if self.precisions is not None:
            variants = {"precision": names(self.precisions, "precisions"), **variants}
        given = Configuration.of(name, self.workload).knobs
        return [
            WORKLOADS[name]
            .from_knobs({**dict(given), **dict(zip(variants, values, strict=True))})
            .settings
            for values in product(*variants.values())
        ]

    def _metrics(self, default: Sequence[str]) -> list[Metric]:
        chosen = default if self.metrics is None else names(self.metrics, "metrics")
        knobs: dict[str, dict[str, KnobValue]] = {name: {} for name in chosen}
        for word in (word for words in self.metric for word in words):
            key, value = knob_value(word)
            name, _, knob = key.partition(".")
            if name not in knobs or not knob:
                raise ConfigError(
                    f"--metric sets a knob of a metric that is scored ({', '.join(knobs)}), as in "
                    f"{next(iter(knobs))}.KNOB=VALUE; got {word!r}."
                )
            knobs[name][knob] = value
        return [METRICS[name].from_knobs(each) for name, each in knobs.items()]

    def _address(self) -> DeviceAddress:
        try:
            return self.address()
        except DeviceNotFoundError as error:
            raise DeviceNotFoundError(f"{error} Or only score, with --no-energy.") from error

    def _costs(
        self, name: str, settings: Sequence[Any], address: DeviceAddress | None, tell: Progress
    ) -> Sequence[tuple[Record, ...] | str | None]:
        if address is None:
            return [None] * len(settings)
        with closing(open_device(address)) as device:
            control = ObserveOnly(device, address)
            with Bench(device, control=control, procedure=self.procedure, report=tell) as bench:
                return [_cost(bench, Configuration.of(name, each)) for each in settings]


parse_quality = partial(parse_with_workload, Quality, among=SUBJECTS, prog="joulelab quality")
"""Reads the command line; each workload's settings become its options."""


def _cost(bench: Bench, configuration: Configuration) -> tuple[Record, ...] | str:
    name = configuration.config_hash
    try:
        return bench.measure(Trial(study="quality", name=name, configuration=configuration))
    except JouleLabError as error:
        return str(error)
