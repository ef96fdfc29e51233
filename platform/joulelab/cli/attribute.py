"""``joulelab attribute WORKLOAD``: where inside a network the joules go."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.console import RenderableType

from joulelab.analysis.attributed.table import content, frame, lines
from joulelab.analysis.table import check_target
from joulelab.attribution.attribution import Attribution
from joulelab.attribution.session import Asked, Session
from joulelab.cli.measure import control_of
from joulelab.cli.program_options import ClockOptions
from joulelab.cli.selection import choose_address, open_device
from joulelab.cli.terminal import Printing, progress
from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.study.abstract_lab import check_guard_socket
from joulelab.tracking.durable import write_whole

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute(ClockOptions, Printing, Generic[Settings]):
    """Attribute the energy of a network to its components, layers, operators and kernels.

    Attributes:
        workload: What to run; its own options may follow it.
        method: replay measures each distinct kernel alone; classes prices kernels by the
            estimator's power of their kind, which takes no longer than measuring the whole; auto
            is replay.
        out: Write a page (.html) or all parts as numbers (.csv) to this file.
        layers: Print the layers too.
        kernels: Print the kernels too that take most.
        device: How to talk to the GPU: nvml, dcgm, smi or simulated; auto takes the best that
            finds one.
        uuid: Which GPU; by default the only one, or the first.
        gpu: Which GPU to simulate, by its catalogue key; for simulated alone.
        store: Folder of driver state, for devices that are not hardware.
        procedure: How the whole is measured.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    method: Asked = "auto"
    out: Path | None = None
    layers: bool = False
    kernels: bool = False
    device: str = "auto"
    uuid: str | None = None
    gpu: str | None = None
    store: str | None = None
    procedure: Procedure = field(default_factory=Procedure)

    def run(self) -> int:
        """Attribute and print; 1 if parts and meter contradict each other."""
        check_target(self.out, ".html", ".csv")
        check_guard_socket(self.guard_socket)
        name = workload_name(self.workload)
        configuration = Configuration.of(name, self.workload, self.point)
        address = choose_address(self.device, store=self.store, uuid=self.uuid, gpu=self.gpu)
        with (
            closing(open_device(address)) as device,
            control_of(self, address, device, note="joulelab attribute") as control,
            progress() as tell,
        ):
            session = Session(device, control=control, procedure=self.procedure, report=tell)
            found = session.attribute(configuration, self.method)
        if self.out is not None:
            _write(found, self.out)
        self.show(content(found), lambda: self._shown(found))
        return int(not all(phase.is_reconciled for phase in found.phases))

    def _shown(self, found: Attribution) -> Iterable[RenderableType]:
        yield from lines(found, layers=self.layers, kernels=self.kernels)
        if self.out is not None:
            yield f"Written to {self.out}."
        else:
            yield "For plots: --out attribution.html"


def _write(found: Attribution, path: Path) -> None:
    if path.suffix == ".csv":
        frame(found).write(path)
        return
    from joulelab.analysis.attributed.page import page

    write_whole(path, page(found).encode())


def parse(arguments: Sequence[str]) -> Attribute[Any]:
    """Read the command line; each workload's settings become its options."""
    found: Attribute[Any] = parse_with_workload(Attribute, arguments, prog="joulelab attribute")
    return found
