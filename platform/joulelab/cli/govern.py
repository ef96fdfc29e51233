"""``joulelab govern``: control the clock of a running program, and tell what that saved."""

import json
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.cli.options import OneGpu, check_places, parse_before_dashes, write_result
from joulelab.cli.run import NOT_EXECUTABLE, NOT_FOUND
from joulelab.core.bounds import MOST_S, check_positive
from joulelab.core.codec import to_json
from joulelab.core.device import DeviceAddress
from joulelab.devices.base import Device
from joulelab.devices.choice import is_hardware, open_device, open_in_real_time
from joulelab.errors import ConfigError
from joulelab.governor import STRATEGIES
from joulelab.governor.comparison import Comparison, Estimate
from joulelab.governor.governor import Governor
from joulelab.governor.loads import SimulatedLoad, stages_of
from joulelab.governor.observing import Tenants
from joulelab.governor.progress import ServerProgress, server_progress
from joulelab.governor.report import GovernorReport, Live, PhaseReport
from joulelab.governor.session import borrowed, govern_child, govern_load, govern_time, governor_of
from joulelab.governor.strategy import Rules, Strategy
from joulelab.monitor.sensors import OwnProcesses
from joulelab.objectives import without_quality
from joulelab.running.child import Child
from joulelab.study.abstract_lab import check_guard_socket


@dataclass(frozen=True, slots=True, kw_only=True)
class Govern(OneGpu):
    """Control the clock of a running program: joulelab govern [OPTIONS] -- python serve.py.

    Around a program that is started for it, or for a time (--duration-s) around whatever runs; on a
    simulated GPU, around a load (--load). Clocks are borrowed from the clock guard. Blocks of time
    are left to the driver in random order, and what the others saved is reported with its 95 %
    interval.
    """

    program: tyro.conf.Suppress[tuple[str, ...]] = ()
    rules: Annotated[Rules, tyro.conf.arg(name="")] = field(default_factory=Rules)
    strategy: str = "model"  # Who chooses: fixed, race-to-idle, model, bandit or oracle.
    duration_s: float | None = None  # How long, where there is no program.
    # What a simulated GPU plays: prefill, decode, serving, chat, training or bursts.
    load: str | None = None
    # How to talk to the GPU: nvml, dcgm, smi or simulated; auto takes the best that finds one.
    device: str = "auto"
    # Where a server counts its work, as in http://localhost:8000/metrics: slowdown and saving are
    # then those of its work, not inferred from counters of the GPU.
    progress_url: str | None = None
    progress_counter: str = "vllm:generation_tokens_total"  # Which of its counters.
    # Which of its histograms is of latencies, for --latency-limit-s.
    latency_histogram: str = "vllm:time_per_output_token_seconds"
    # Say nothing until the end; else phases and what is set for each are printed meanwhile.
    quiet: bool = False
    observe_only: bool = False  # Call no setter, ever.
    # Socket of the clock guard that clocks are borrowed from; by default the system's, or else one
    # that is started for it.
    guard_socket: Path | None = None
    json: str | None = None  # Write the result as JSON to this file; - for the standard output.

    def run(self) -> int:
        """Govern and tell what that saved; return the program's exit code where there is one.

        Else it is 1 if the clock was to be set and could not.
        """
        strategy = self._strategy()
        child = Child(self.program) if self.program else None  # before there are other threads
        with ExitStack() as stack:
            if child is not None:
                stack.callback(child.leave)
            address = self.address()
            self._check_what_runs(address)
            open_one = open_device if self.load is not None else open_in_real_time
            device = stack.enter_context(closing(open_one(address)))
            if child is not None:
                return self._around(child, stack, address, device, strategy)
            outcome = self._alone(stack, address, device, strategy)
        self._tell(outcome)
        return int(bool(outcome.observing_only) and not self.observe_only)

    def _strategy(self) -> Strategy:
        check_places(self.json, None)
        check_guard_socket(self.guard_socket)
        if self.load is not None:
            stages_of(self.load)
            self._check_load()
        self._server()
        what = [bool(self.program), self.load is not None, self.duration_s is not None]
        if sum(what) == 0 or (self.program and any(what[1:])):
            raise ConfigError(
                "joulelab govern needs a program after two dashes, or --duration-s and, on a "
                "simulated GPU, --load, as in: joulelab govern -- python serve.py."
            )
        check_positive("--duration-s", self.duration_s, MOST_S)
        kind = STRATEGIES[self.strategy]
        if self.rules.fixed is not None and kind is not STRATEGIES["fixed"]:
            raise ConfigError(
                f"--fixed is of the strategy fixed, got {self.strategy}; give --strategy fixed, or "
                "leave --fixed out."
            )
        if kind.needs_load and self.load is None:
            raise ConfigError(
                f"The strategy {self.strategy} must know what runs, as a simulated GPU does that "
                "plays a load; give --load, or take another one."
            )
        return kind(self.rules)

    def _check_load(self) -> None:
        if self.progress_url is not None or self.rules.latency_limit_s is not None:
            raise ConfigError(
                "--load is played without a server, which --progress-url and --latency-limit-s are "
                "of; leave them out."
            )

    def _server(self) -> ServerProgress | None:
        names = self.progress_counter, self.latency_histogram
        return server_progress(self.progress_url, *names, self.rules)

    def _check_what_runs(self, address: DeviceAddress) -> None:
        if self.load is not None and is_hardware(address):
            raise ConfigError(
                f"--load is played by simulated GPUs, and {address.uuid} is a real one; give "
                "--device simulated, or a program."
            )

    def _around(
        self,
        child: Child,
        stack: ExitStack,
        address: DeviceAddress,
        device: Device,
        strategy: Strategy,
    ) -> int:
        control = borrowed(stack, device, address, self.observe_only, self.guard_socket)
        try:
            child.start()
        except OSError as error:
            print(f"joulelab govern: {self.program[0]}: {error.strerror}", file=sys.stderr)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        own = OwnProcesses(() if child.pid is None else (child.pid,))
        try:
            governor = governor_of(device, control, strategy, Tenants(device, own))
            with self._progress(governor), self._live(governor):
                outcome = govern_child(governor, child)
        finally:
            child.wait()  # whatever became of the governing
        self._tell(outcome)
        return child.exit_code

    def _alone(
        self, stack: ExitStack, address: DeviceAddress, device: Device, strategy: Strategy
    ) -> GovernorReport:
        control = borrowed(stack, device, address, self.observe_only, self.guard_socket)
        duration_s = 600.0 if self.duration_s is None else self.duration_s
        if self.load is None:
            governor = governor_of(device, control, strategy, Tenants(device))
            with self._progress(governor), self._live(governor):
                return govern_time(governor, duration_s)
        load = SimulatedLoad(device, stages_of(self.load), seed=self.rules.seed)
        strategy.watch(load)
        governor = governor_of(device, control, strategy, Tenants(device, OwnProcesses()))
        with self._live(governor):
            return govern_load(governor, load, duration_s)

    def _live(self, governor: Governor) -> AbstractContextManager[object]:
        """Say meanwhile what is recognised and decided, beside what the program prints."""
        if self.quiet:
            return nullcontext()
        return Live(governor, lambda line: print(f"joulelab govern: {line}", file=sys.stderr))

    @contextmanager
    def _progress(self, governor: Governor) -> Generator[None]:
        """Report a server's progress meanwhile, where one was named."""
        server = self._server()
        if server is None:
            yield
            return
        server.start(governor)
        try:
            yield
        finally:
            server.stop()
            if server.failure:
                print(f"joulelab govern: {server.failure}", file=sys.stderr)

    def _tell(self, outcome: GovernorReport) -> None:
        print_report(outcome)
        if self.json is not None:
            text = json.dumps(json.loads(to_json(outcome)), indent=2) + "\n"
            write_result(text, self.json)


def parse(arguments: Sequence[str]) -> Govern:
    """Read the command line; the program is what follows two dashes."""
    govern, program = parse_before_dashes(Govern, arguments, prog="joulelab govern")
    return replace(govern, program=program)


def print_report(outcome: GovernorReport) -> None:
    """Print a table of phases and what it means, on the standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text(f"{outcome.gpu} under {outcome.strategy} for {outcome.duration_s:.0f} s"))
    if outcome.phases:
        console.print(phase_table(outcome.phases))
    for line in lines(outcome):
        console.print(Text(line))


def phase_table(phases: Iterable[PhaseReport]) -> Table:
    """Return a row for each phase."""
    table = quiet_table(
        *words("phase"),
        *numbers("share of time", "driver's clock", "power"),
        *words("set to"),
        *numbers("power", "slowdown"),
    )
    for phase in phases:
        table.add_row(
            phase.name,
            f"{100 * phase.share:.1f} %",
            _or_dash(phase.default_sm_clock_mhz, "{:.0f} MHz"),
            _or_dash(phase.default_power_w, "{:.0f} W"),
            phase.point.label,
            _or_dash(phase.power_w, "{:.0f} W"),
            _or_dash(None if phase.slowdown is None else 100 * phase.slowdown, "{:+.1f} %"),
        )
    return table


def lines(outcome: GovernorReport) -> list[str]:
    """Return what the numbers mean, a sentence or two each."""
    found = []
    if outcome.observing_only:
        ended = "Clocks were set no more" if outcome.num_changes else "Nothing was set"
        found.append(f"{ended}: {outcome.observing_only}")
    if outcome.comparison is None:
        found.append(f"What was saved is not known: {outcome.reason}")
    else:
        found += _comparison_lines(outcome.comparison, outcome)
    found.append(
        f"The point was changed {outcome.num_changes} times. Governing took "
        f"{100 * outcome.cpu_share:.2g} % of a core."
    )
    if outcome.throttled_s:
        found.append(f"A power limit or heat held the clock down for {outcome.throttled_s:.0f} s.")
    return [*found, *outcome.notes]


def _comparison_lines(found: Comparison, outcome: GovernorReport) -> list[str]:
    label = without_quality(outcome.rules.objective).label
    changes = [f"energy per work {_estimate(found.energy)}", f"time {_estimate(found.time)}"]
    if label != "energy":
        changes.append(f"{label} {_estimate(found.cost)}")
    basis = (
        "Work is what the program reported."
        if found.by_progress
        else "Work is inferred from counters: operations and bytes per unit of work are taken to "
        "be the same throughout a phase."
    )
    lines = [
        f"Against the driver's own clocks ({found.num_on} governed blocks, {found.num_off} left "
        f"to it): {', '.join(changes)}.",
        f"{basis} Energy is what the board's own sensor shows: its gain cancels, but a constant "
        "that it adds is not in the intervals.",
    ]
    if found.time.upper > outcome.rules.max_slowdown:
        lines.append(
            f"The slowdown may exceed its limit of {100 * outcome.rules.max_slowdown:g} %; run "
            "longer to know, or ask for less."
        )
    if found.unknown_share > 0.01:
        lines.append(
            f"{100 * found.unknown_share:.0f} % of the time is left out: its work is not known."
        )
    return lines


def _estimate(found: Estimate) -> str:
    value, lower, upper = (100 * each for each in (found.value, found.lower, found.upper))
    return f"{value:+.1f} % [{lower:+.1f}, {upper:+.1f}]"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
