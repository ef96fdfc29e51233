"""``joulelab measure WORKLOAD``: one configuration, each phase with its error bar."""

import json
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

from joulelab.analysis.measurement_lines import report_lines
from joulelab.bench import Bench
from joulelab.cli.program_options import ClockOptions
from joulelab.cli.selection import OneGpu
from joulelab.cli.study import parse_with_workload
from joulelab.cli.terminal import Printing, progress
from joulelab.core.codec import to_json
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.base import Device
from joulelab.devices.choice import open_device
from joulelab.devices.control import ClosableControl
from joulelab.guard import GuardClient, ObserveOnly
from joulelab.study.abstract_lab import check_guard_socket
from joulelab.tracking.vocabulary import metrics
from joulelab.workloads import WORKLOADS

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(OneGpu, ClockOptions, Printing, Generic[Settings]):
    """Measure one configuration of a workload on one GPU, each phase with its error bar."""

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
            control_of(self, address, device, note="joulelab measure") as control,
            progress() as tell,
            Bench(device, control=control, procedure=self.procedure, report=tell) as bench,
        ):
            records = bench.measure(trial)
        print(_as_json(records) if self.json else "\n".join(report_lines(records)))
        return int(not all(record.measurement.valid for record in records))


@contextmanager
def control_of(
    options: ClockOptions, address: DeviceAddress, device: Device, *, note: str
) -> Generator[ClosableControl]:
    """Yield who may turn the knobs of a device: a lease of the guard, or nobody."""
    if options.observe_only:
        yield ObserveOnly(device, address, guard_socket=options.guard_socket)
        return
    with GuardClient(options.guard_socket).lease(address, note=note) as lease:
        yield lease


parse = partial(parse_with_workload, Measure, prog="joulelab measure")
"""Reads the command line; each workload's settings become its options."""


def _as_json(records: Sequence[Record]) -> str:
    rows = [
        {**json.loads(to_json(m)), "valid": m.valid, "metrics": metrics(m)}
        for m in (record.measurement for record in records)
    ]
    return json.dumps({"measurements": rows}, indent=2)
