"""``joulelab measure WORKLOAD``: one configuration, each phase with its error bar."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from joulelab.cli.progress import progress
from joulelab.cli.report import report_lines
from joulelab.cli.selection import check_guard_socket, choose_address, open_device
from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.base import Device
from joulelab.devices.control import Control
from joulelab.errors import ConfigError
from joulelab.guard import GuardClient, ObserveOnly
from joulelab.measure import Bench
from joulelab.tracking.codec import to_json
from joulelab.tracking.vocabulary import metrics

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[Settings]):
    """Measure one configuration of a workload on one GPU, each phase with its error bar.

    Attributes:
        workload: What to run; its own options may follow it.
        device: How to talk to the GPU: nvml, dcgm, smi, simulated or replay; auto takes the
            best that finds one.
        uuid: Which GPU; by default the only one, or the first.
        gpu: Which GPU to simulate, by its catalogue key; for simulated alone.
        store: Folder of driver state or recordings, for devices that are not hardware.
        sm_clock_mhz: Locked SM clock; by default the driver's own.
        mem_clock_mhz: Locked memory clock; by default the driver's own.
        power_limit_w: Board power limit; by default the driver's own. Under --observe-only it must
            be in force already.
        observe_only: Call no setter, ever: measure at the clocks that there are.
        procedure: How to measure.
        guard_socket: Socket of the clock guard that clocks are borrowed from; by default the
            system's, or else one that is started for it.
        json: Print one JSON object instead of text.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    device: str = "auto"
    uuid: str | None = None
    gpu: str | None = None
    store: str | None = None
    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    power_limit_w: float | None = None
    observe_only: bool = False
    procedure: Procedure = field(default_factory=Procedure)
    guard_socket: Path | None = None
    json: bool = False

    def run(self) -> int:
        """Measure and print.

        Returns:
            0, or 1 if a phase broke the validity contract.

        Raises:
            ConfigError: If the request cannot be carried out as written.
            DeviceError: If there is no such device.
        """
        configuration = self._configuration()
        check_guard_socket(self.guard_socket)
        address = choose_address(self.device, store=self.store, uuid=self.uuid, gpu=self.gpu)
        device = open_device(address)
        try:
            with (
                self._control(address, device) as control,
                progress() as tell,
                Bench(device, control=control, procedure=self.procedure, tell=tell) as bench,
            ):
                records = bench.measure(
                    Trial(
                        study="measure", name=configuration.point.label, configuration=configuration
                    )
                )
        finally:
            device.close()
        print(_as_json(records) if self.json else "\n".join(report_lines(records)))
        return int(not all(record.measurement.valid for record in records))

    def _configuration(self) -> Configuration:
        point = OperatingPoint(
            sm_clock_mhz=self.sm_clock_mhz,
            mem_clock_mhz=self.mem_clock_mhz,
            power_limit_w=self.power_limit_w,
        )
        if self.observe_only and point.locks_clocks:
            raise ConfigError(
                "--observe-only measures at the driver's own clocks; drop it, or drop "
                "--sm-clock-mhz and --mem-clock-mhz."
            )
        return Configuration.of(workload_name(self.workload), self.workload, point)

    @contextmanager
    def _control(self, address: DeviceAddress, device: Device) -> Generator[Control]:
        if self.observe_only:
            yield ObserveOnly(device, address, guard_socket=self.guard_socket)
            return
        with GuardClient(self.guard_socket).lease(address, note="joulelab measure") as lease:
            yield lease


def parse(arguments: Sequence[str]) -> Measure[Any]:
    """Read the command line; each workload's settings become its options.

    Raises:
        UnknownNameError: If there is no such workload; names the closest.
    """
    measure: Measure[Any] = parse_with_workload(Measure, arguments, prog="joulelab measure")
    return measure


def _as_json(records: Sequence[Record]) -> str:
    told = []
    for record in records:
        measurement = record.measurement
        told.append(
            {
                **json.loads(to_json(measurement)),
                "valid": measurement.valid,
                "metrics": metrics(measurement),
            }
        )
    return json.dumps({"measurements": told}, indent=2)
