"""``joulelab top`` and ``export-metrics``: the GPUs of this machine, watched."""

import importlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.live import Live
from rich.table import Table
from rich.text import Text

from joulelab.analysis.quantities import brief
from joulelab.cli.devices import plain
from joulelab.cli.options import SomeGpus, choose_addresses
from joulelab.cli.terminal import terminal
from joulelab.core.bounds import DAY_S, check_positive, check_range
from joulelab.core.device import GpuProcess
from joulelab.errors import ConfigError, one_line
from joulelab.guard.protocol import HeldLease
from joulelab.live.activity import EndedTrial, TrialActivity
from joulelab.live.reading import THROTTLES, LiveReading, LiveSession, LiveView


@dataclass(frozen=True, kw_only=True)
class LiveOptions(SomeGpus):
    """The GPUs that a command watches."""

    gpu: str | None = None  # Which GPU to simulate, by its catalogue key; for simulated alone.
    # Clock guard to ask who holds what; by default the one that studies take.
    guard_socket: Path | None = None

    def open_session(self, *, counter_period_s: float = 5.0) -> LiveSession:
        """Open the GPUs that were named, to be closed by the caller."""
        addresses = choose_addresses(self.device, store=self.store, uuids=self.uuid, gpu=self.gpu)
        return LiveSession(
            addresses, guard_socket=self.guard_socket, counter_period_s=counter_period_s
        )


_GIB = 2**30
_UNREAD = "-"


def live_table(view: LiveView) -> Table:
    """Draw a view, one row per GPU."""
    table = Table(caption=_caption(view), caption_justify="left", show_lines=True)
    table.add_column("GPU")
    for heading in ("power\nW", "energy\nJ", "SM, mem.\nMHz", "temp.\nC", "in use"):
        table.add_column(heading, justify="right")
    table.add_column("state", overflow="fold")
    for gpu in view.gpus:
        table.add_row(*map(Text, _cells(gpu, view)))
    return table


def loan_in_words(lease: HeldLease) -> str:
    """Say who holds a GPU, at which point, and what for."""
    note = one_line(lease.note) or "no note"
    return f"pid {lease.pid} of uid {lease.uid} at {lease.point}: {note}"


def activity_in_words(activity: TrialActivity, now_unix_s: float) -> Iterator[str]:
    """Say which trial of which study a GPU measures, what the last one took, and what is saved."""
    if activity.study is not None:
        since = f"for {max(now_unix_s - activity.since_unix_s, 0.0):.0f} s"
        doing = f"between trials {since}" if activity.trial is None else f"{activity.trial} {since}"
        yield one_line(f"{activity.study}: {doing}")
    if activity.last is not None:
        yield one_line(f"last {activity.last.trial}: {_ended_in_words(activity.last)}")
    if (saving := activity.saving) is not None:
        yield one_line(
            f"least energy so far at {saving.point}: {100 * (saving.energy_ratio - 1):+.1f} % "
            f"energy, {100 * (saving.time_ratio - 1):+.1f} % time of the driver's clocks"
        )


def _ended_in_words(last: EndedTrial) -> str:
    if last.energy_j is None or last.energy_per_unit_j is None:
        return f"invalid, {last.reason}"
    return f"{brief(last.energy_j, 'J')}, {brief(last.energy_per_unit_j, f'J/{last.unit}')}"


def _cells(gpu: LiveReading, view: LiveView) -> tuple[str, ...]:
    state = gpu.state
    limit_w = None if state is None else state.power_limit_w
    clocks_mhz = (None, None) if state is None else (state.sm_clock_mhz, state.mem_clock_mhz)
    used_b = None if state is None or state.memory_used_b is None else state.memory_used_b
    share = None if state is None or state.gpu_utilization is None else state.gpu_utilization
    return (
        f"{gpu.index} {gpu.identity.name}\n{gpu.identity.uuid}",
        f"{_number(gpu.power_w, '.1f')} of {_number(limit_w, '.0f')}\n"
        f"mean {_number(gpu.mean_power_w, '.1f')}",
        _number(gpu.energy_since_start_j, ".0f"),
        "\n".join(_number(clock, "d") for clock in clocks_mhz),
        _number(None if state is None else state.temperature_c, ".0f"),
        f"{_number(share, '.0%')}\n{_number(None if used_b is None else used_b / _GIB, '.1f')} GiB",
        "\n".join(_notes(gpu, view)),
    )


def _notes(gpu: LiveReading, view: LiveView) -> Iterator[str]:
    uuid, loans = gpu.identity.uuid, view.loans
    if gpu.throttles is not None:
        held = [THROTTLES[reason] for reason, holds in gpu.throttles.items() if holds]
        yield "not throttled" if not held else f"throttled: {', '.join(held)}"
    if (activity := view.activities.get(uuid)) is not None:
        yield from activity_in_words(activity, time.time())
        if (state := view.studies.get(activity.study or "")) is not None:
            total = "" if state.num_trials is None else f" of {state.num_trials}"
            failed = f", {len(state.failed)} given up" if state.failed else ""
            yield f"{state.num_done}{total} trials of the study done{failed}"
    if (lease := loans.by_uuid.get(uuid)) is not None:
        yield f"lent to {loan_in_words(lease)}"
    if (why := loans.unrestored.get(uuid)) is not None:
        yield f"NOT RESTORED after a loan: {why}"
    if gpu.processes:
        yield f"used by {', '.join(map(_process_in_words, gpu.processes))}"
    yield from dict.fromkeys(gpu.unread.values())


def _process_in_words(process: GpuProcess) -> str:
    # The driver's process ids are the host's; within a container they name others or nobody.
    memory = "" if process.memory_b is None else f" ({process.memory_b / _GIB:.1f} GiB)"
    return f"pid {process.pid}{memory}"


def _number(value: float | None, form: str) -> str:
    return _UNREAD if value is None else format(value, form)


def _caption(view: LiveView) -> str:
    spans_s = [gpu.mean_over_s for gpu in view.gpus if gpu.mean_over_s is not None]
    mean = [f"means over {max(spans_s):.0f} s"] if spans_s else []
    share = [] if view.core_share is None else [f"{view.core_share:.1%} of a core"]
    cost = f"a look takes {1e3 * sum(gpu.cost_s for gpu in view.gpus):.1f} ms"
    guard = [] if view.loans.unread is None else [view.loans.unread]
    return "; ".join([*mean, cost, *share, *guard])


@dataclass(frozen=True, kw_only=True)
class Top(LiveOptions):
    """Watch the GPUs of this machine: power, energy, clocks, heat, throttling, loans, trials.

    It only reads, and calls no setter. Ctrl-C ends it.
    """

    interval_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 1.0  # Time between two looks.
    once: bool = False  # Look once, print, and end.
    json: bool = False  # Print one JSON object instead of a table; with --once.

    def run(self) -> int:
        """Look until interrupted, or once; 1 if a GPU could not be read at all then."""
        check_positive("--interval-s", self.interval_s, DAY_S)
        if self.json and not self.once:
            raise ConfigError("--json prints one object and needs --once beside it.")
        with self.open_session() as session:
            return self._tell(session.look()) if self.once else self._watch(session)

    def _tell(self, view: LiveView) -> int:
        if self.json:
            print(json.dumps(asdict(view), indent=2, default=plain))
        else:
            terminal().print(live_table(view))
        return int(any(gpu.power_w is None and gpu.state is None for gpu in view.gpus))

    def _watch(self, session: LiveSession) -> int:
        console = terminal()
        if not console.is_terminal:
            for view in self._views(session):
                console.print(live_table(view))
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            for view in self._views(session):
                screen.update(live_table(view), refresh=True)
        return 0

    def _views(self, session: LiveSession) -> Iterator[LiveView]:
        while True:
            started_s = time.monotonic()
            yield session.look()
            time.sleep(max(0.0, started_s + self.interval_s - time.monotonic()))


@dataclass(frozen=True, kw_only=True)
class ExportMetrics(LiveOptions):
    """Serve power, energy, clocks, heat and loans of this machine's GPUs to Prometheus.

    It reads while it is scraped, and calls no setter. Whoever reaches the address can read, so it
    is this machine's own unless another is named. Ctrl-C ends it.
    """

    address: str = "127.0.0.1"  # Address of this machine to listen on.
    # Port; 0 takes any that is free, and says which.
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 9400
    # Export through the Ray cluster at RAY_ADDRESS instead: every node's GPUs, beside the metrics
    # that its Ray serves there.
    ray: bool = False

    def run(self) -> int:
        """Serve until interrupted; 1 if what serves ends by itself."""
        if self.ray:
            return self._export_through_ray()
        from prometheus_client import start_http_server

        from joulelab.live.metrics import COUNTER_PERIOD_S, registry_of

        check_range("--port", self.port, 0, 65535)
        with self.open_session(counter_period_s=COUNTER_PERIOD_S) as session:
            try:
                server, thread = start_http_server(
                    self.port, addr=self.address, registry=registry_of(session)
                )
            except OSError as error:
                raise ConfigError(
                    f"--address and --port must be free here, got {self.address} and {self.port}: "
                    f"{error.strerror}. NVIDIA's own exporter takes 9400 too; name another."
                ) from error
            where = f"http://{self.address}:{server.server_port}/metrics"
            print(f"Serving metrics at {where}", file=sys.stderr, flush=True)
            try:
                # In turns: an interrupt that another thread receives does not end a longer wait.
                while thread.is_alive():
                    thread.join(1.0)
            finally:
                server.shutdown()
                server.server_close()
        return 1

    def _export_through_ray(self) -> int:
        if self.uuid or self.gpu is not None:
            raise ConfigError("--ray exports every GPU of every node; leave --uuid and --gpu out.")
        # By name: Ray is no part of this package.
        metrics = importlib.import_module("joulelab_actors.live_metrics")
        metrics.export_metrics(self.device, self.store, self.guard_socket)
        return 1
