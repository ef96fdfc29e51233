"""``joulelab attribute`` and ``kernels``: where the joules of a network go; what a trace holds."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import tyro
from rich.console import RenderableType
from rich.table import Table

from joulelab.analysis.attributed import kernels
from joulelab.analysis.attributed.kernels import KernelProfile
from joulelab.analysis.attributed.numbers import content, frame
from joulelab.analysis.attributed.table import lines, share_of_all
from joulelab.analysis.page import Output
from joulelab.analysis.table import Frame, check_target, numbers, quiet_table, words
from joulelab.attribution.attribution import UNEXPLAINED, Attribution, Share
from joulelab.attribution.kineto import Launches, read_trace
from joulelab.attribution.session import Asked, Session
from joulelab.attribution.variants import variants_of
from joulelab.cli.options import ClockOptions, OneGpu, choose_group
from joulelab.cli.study import parse_with_workload
from joulelab.cli.terminal import Printing, progress
from joulelab.cli.words import Variants, read_variants
from joulelab.core.bounds import check_range
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.devices.base import check_point
from joulelab.devices.choice import open_device
from joulelab.devices.control import JointControl
from joulelab.errors import ConfigError, MeasurementError
from joulelab.objectives import Objective, without_quality
from joulelab.study.abstract_lab import check_guard_socket
from joulelab.workloads import WORKLOADS

Clocks = Sequence[tuple[str, Attribution]]
"""Operating points in words, the one asked for first, and what was found there."""


Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute(OneGpu, ClockOptions, Printing, Generic[Settings]):
    """Attribute the energy of a network to its components, layers, operators and kernels.

    FILE.py:NAME or package.module:NAME in place of a workload is a function or class of yours,
    which takes a real GPU.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    # replay measures each distinct kernel alone; classes prices kernels by the estimator's power of
    # their kind, which takes little longer than measuring the whole; auto is replay.
    method: Asked = "auto"
    # SM clocks at which it is attributed too, to say which component gains at which.
    clocks_mhz: tuple[int, ...] = ()
    # Tokens in the cache when a decode starts; what it takes after so many is attributed too, over
    # the length of the context.
    contexts: tuple[int, ...] = ()
    vary: Variants = ()  # Settings with which it is attributed, too: batch=8,32 precision=fp16.
    # What is to be low there: edp, ed2p, energy, time, or that of a plug-in.
    objective: str = "edp"
    out: Path | None = None  # Write a page (.html) or all parts as numbers (.csv) to this file.
    # Keep the profiler's trace of each phase in this folder, for `joulelab kernels`.
    traces: Path | None = None
    layers: bool = False  # Print the layers too.
    kernels: bool = False  # Print the kernels too that take most.
    # How to talk to the GPU: nvml, dcgm, smi or simulated; auto takes the best that finds one.
    device: str = "auto"
    # GPUs that share every layer of the program, the first ones there; the workload's
    # --tensor-parallel says as many.
    gpus_per_trial: int = 1
    procedure: Procedure = field(default_factory=Procedure)  # How the whole is measured.

    def run(self) -> int:
        """Attribute and print; 1 if parts and meter contradict each other."""
        check_target(self.out, ".html", ".csv")
        check_guard_socket(self.guard_socket)
        without_quality(self.objective)
        if self.observe_only and self.clocks_mhz:
            raise ConfigError("--clocks-mhz locks clocks; drop --observe-only.")
        if self.traces is not None and self.clocks_mhz:
            raise ConfigError("--traces are those of one clock; leave --clocks-mhz out.")
        variants = variants_of(self.contexts, read_variants(self.vary))
        with ExitStack() as stack:
            session = self._session(stack)
            found = session.attribute(self._asked(self.point), self.method, variants)
            clocks, refused = self._others(session)
        clocks = [(self.point.label, found), *clocks]
        answer = Output(
            content=self._content(clocks, refused),
            frame=self._frame(clocks),
            page=partial(_page, found, clocks if self.clocks_mhz else ()),
        )
        if self.out is not None:
            answer.write(self.out)
        self.show(answer.content, lambda: self._shown(found, clocks, refused))
        return int(not all(one.is_reconciled for _, one in clocks))

    def _session(self, stack: ExitStack) -> Session:
        """Open the GPUs and borrow their clocks until ``stack`` ends."""
        addresses = self._addresses()
        device = stack.enter_context(closing(open_device(addresses[0])))
        for point in (self.point, *self._other_points()):
            check_point(point, device.capabilities())
        partners = [
            stack.enter_context(closing(device.open_partner(address))) for address in addresses[1:]
        ]
        controls = [
            stack.enter_context(self.control(address, each, note="joulelab attribute"))
            for address, each in zip(addresses, (device, *partners), strict=True)
        ]
        return Session(
            device,
            partners=partners,
            control=JointControl(controls),
            procedure=self.procedure,
            report=stack.enter_context(progress()),
            traces=self.traces,
        )

    def _addresses(self) -> tuple[DeviceAddress, ...]:
        if self.gpus_per_trial == 1:
            return (self.address(),)
        if self.uuid is not None or self.gpus_per_trial < 1:
            raise ConfigError(
                "--gpus-per-trial must be at least 1 and takes the first GPUs there; got "
                f"{self.gpus_per_trial} and --uuid {self.uuid}. Leave --uuid out."
            )
        return choose_group(
            self.device, store=self.store, gpu=self.gpu, num_gpus=self.gpus_per_trial
        )

    def _other_points(self) -> list[OperatingPoint]:
        clocks_mhz = dict.fromkeys(self.clocks_mhz)
        return [replace(self.point, sm_clock_mhz=clock_mhz) for clock_mhz in clocks_mhz]

    def _others(self, session: Session) -> tuple[list[tuple[str, Attribution]], list[str]]:
        """Attribute at the other clocks; return also why some of them cannot be."""
        clocks, refused = [], []
        for point in self._other_points():
            try:
                clocks.append((point.label, session.attribute(self._asked(point), self.method)))
            except MeasurementError as error:  # the power limit holds no such clock
                refused.append(f"{point.label} is left out: {error}")
        return clocks, refused

    def _asked(self, point: OperatingPoint) -> Configuration:
        return Configuration.of(WORKLOADS.name_of(self.workload), self.workload, point)

    def _content(self, clocks: Clocks, refused: Sequence[str]) -> object:
        if not self.clocks_mhz:
            return content(clocks[0][1])
        return {"clocks": {label: content(found) for label, found in clocks}, "refused": refused}

    def _frame(self, clocks: Clocks) -> Frame:
        if not self.clocks_mhz:
            return frame(clocks[0][1])
        return Frame.of(
            [{"point": label, **row} for label, found in clocks for row in frame(found).records()]
        )

    def _shown(
        self, found: Attribution, clocks: Clocks, refused: Sequence[str]
    ) -> Iterable[RenderableType]:
        yield from lines(found, layers=self.layers, kernels=self.kernels)
        yield from refused
        if len(clocks) > 1:
            for phase in found.phases:
                yield f"\n{phase.phase}, at {', '.join(label for label, _ in clocks)}:"
                yield clock_table(clocks, phase.phase, without_quality(self.objective))
        if self.out is not None:
            yield f"Written to {self.out}."
        else:
            yield "For plots: --out attribution.html"


def _page(found: Attribution, clocks: Clocks) -> str:
    from joulelab.analysis.attributed.page import page  # Matplotlib takes a second

    return page(found, clocks)


parse = partial(parse_with_workload, Attribute, prog="joulelab attribute")
"""Reads the command line; each workload's settings become its options."""


_SURE = 2.0  # standard uncertainties by which a component must gain to be said to


def clock_table(clocks: Clocks, phase: str, objective: Objective) -> Table:
    """Return a table of the best clock of each component, against the first.

    A component's time is its time on the device; gains within two standard uncertainties are none.
    """
    table = quiet_table(
        *words("component", f"best clock by {objective.label}"),
        *numbers("energy", "time", objective.label),
    )
    own = _shares(clocks[0][1], phase)
    for name in own:
        table.add_row(name, *_cells(clocks, phase, name, objective))
    return table


def _cells(clocks: Clocks, phase: str, name: str, objective: Objective) -> list[str]:
    at = {
        label: shares[name] for label, found in clocks if name in (shares := _shares(found, phase))
    }
    own = next(iter(at.values()))
    best, there = min(at.items(), key=lambda item: _cost(item[1], objective))
    change = _cost(there, objective) / _cost(own, objective) - 1
    doubt = (
        objective.energy_exponent
        * ((there.energy_u_j / there.energy_j) ** 2 + (own.energy_u_j / own.energy_j) ** 2) ** 0.5
    )
    if -change <= _SURE * doubt:
        first = "the driver's own" if (label := next(iter(at))) == OperatingPoint().label else label
        return [f"{first}, or none is better", "", "", ""]
    return [
        best,
        f"{there.energy_j / own.energy_j - 1:+.1%}",
        f"{(there.time_s or 0.0) / (own.time_s or 1.0) - 1:+.1%}",
        f"{change:+.1%}",
    ]


def _cost(share: Share, objective: Objective) -> float:
    return objective.cost(share.energy_j, share.time_s or 0.0)


def _shares(found: Attribution, phase: str) -> dict[str, Share]:
    one = found.phase(phase)
    parts = [share for share in one.by_component if share.name != UNEXPLAINED]
    shares = (*parts, share_of_all(one))
    return {share.name: share for share in shares if share.energy_j > 0 and share.time_s}


_SHOWN_LAUNCHES = 400  # launches that a chart of streams can show, where no part is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels(Printing):
    """List the distinct kernels of a trace: how often, how long, from where; streams and gaps."""

    # File that torch.profiler exported (export_chrome_trace), .json or .json.gz.
    trace: tyro.conf.Positional[Path]
    # Write a page with a chart of streams (.html), or all distinct kernels as numbers (.csv,
    # .parquet), to this file.
    out: Path | None = None
    # Where the chart begins, in seconds after the first launch; by default in the middle.
    from_s: float | None = None
    for_s: float | None = None  # How much it shows; by default some hundred launches.

    def run(self) -> int:
        """Read, print and write."""
        check_target(self.out, ".html", ".csv", ".parquet")
        check_range("from_s", self.from_s, 0, 1e6)
        check_range("for_s", self.for_s, 1e-9, 1e6)
        profile = KernelProfile.of(read_trace(self.trace))
        part, table = self._part(profile.launches), kernels.frame(profile.kernels)
        content = {"answer": kernels.answer(profile), "kernels": table.records()}
        if self.out is not None:
            from joulelab.analysis.attributed.kernel_page import page  # Matplotlib takes a second

            shown = partial(page, profile, self.trace, *part)
            Output(content=content, frame=table, page=shown).write(self.out)
        self.show(content, lambda: kernels.lines(profile))
        return 0

    def _part(self, launches: Launches) -> tuple[float, float]:
        """Return from when to when the chart shows launches one by one."""
        first = max(0, (len(launches) - _SHOWN_LAUNCHES) // 2)
        last = min(len(launches), first + _SHOWN_LAUNCHES) - 1
        start_s = float(launches.start_s[first]) if self.from_s is None else self.from_s
        stop_s = float(launches.start_s[last] + launches.duration_s[last])
        return start_s, max(stop_s, start_s + 1e-6) if self.for_s is None else start_s + self.for_s
