"""``joulelab bench-server``: energy and latencies of an OpenAI-compatible server under load."""

import asyncio
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.analysis.quantities import brief, counted, uncertain
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.cli import run_report
from joulelab.cli.options import (
    ClockOptions,
    SomeGpus,
    check_places,
    parse_before_dashes,
    write_result,
)
from joulelab.core.device import DeviceAddress
from joulelab.devices.choice import find_default, open_in_real_time
from joulelab.errors import ConfigError, DeviceError
from joulelab.monitor.monitor import Monitor
from joulelab.monitor.sensors import OwnProcesses
from joulelab.running.measure import InForce, beside
from joulelab.serving.bench import ServerUse, Spread, bench
from joulelab.serving.deployment import Deployment, pid_of_unit
from joulelab.serving.settings import ServerSettings
from joulelab.study.abstract_lab import check_guard_socket

_SHOW_P99 = 100  # answers, of which one is expected beyond it


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchServer(SomeGpus, ClockOptions):
    """Drive a language model's server and measure energy and latencies.

    Either it is started for this: joulelab bench-server [OPTIONS] -- vllm serve MODEL --port 8000.
    Or it runs already, and --pid or --unit says which processes are its own. Clocks and limits hold
    meanwhile, on the GPUs named or else on all that may be used.
    """

    server: Annotated[ServerSettings, tyro.conf.arg(name="")] = field(
        default_factory=ServerSettings
    )
    unit: str | None = None  # The systemd unit that it runs in, in place of a process.
    uuid: tuple[str, ...] = ()  # Which GPUs count; by default those that the server is seen on.
    json: str | None = None  # Write the result as JSON to this file; - for the standard output.
    mlflow: str | None = None  # Log the result as a run to this MLflow store.
    experiment: str = "joulelab bench-server"  # Name of the experiment there.

    def run(self) -> int:
        """Drive the server and print what it cost; 1 if a request failed."""
        check_places(self.json, self.mlflow)
        server, point = self._server(), self.point
        check_guard_socket(self.guard_socket)
        named = self.addresses() if self.uuid else []
        with ExitStack() as stack:
            in_force = InForce()
            if not point.is_default:
                gpus = named or find_default(self.device, self.store)
                in_force = self.borrow(stack, gpus, "joulelab bench-server")
            deployment = stack.enter_context(closing(Deployment(server)))
            use = asyncio.run(self._bench(deployment, server, named, in_force))
        self._print(use)
        return int(use.served.num_failed > 0)

    def _server(self) -> ServerSettings:
        given = [self.server.pid is not None, self.unit is not None, bool(self.server.command)]
        if sum(given) != 1:
            raise ConfigError(
                "joulelab bench-server needs one of --pid, --unit, or a server's command line "
                "after two dashes, to know which processes are the server's."
            )
        return (
            self.server if self.unit is None else replace(self.server, pid=pid_of_unit(self.unit))
        )

    async def _bench(
        self,
        deployment: Deployment,
        server: ServerSettings,
        named: Sequence[DeviceAddress],
        in_force: InForce,
    ) -> ServerUse:
        own = OwnProcesses((deployment.pid,))
        with self._monitor(named, own, in_force) as (monitor, missing):
            ready_s = await deployment.ready()
            print(f"The server is ready after {ready_s:.1f} s.", file=sys.stderr)
            return await bench(
                deployment,
                server,
                monitor,
                in_force=in_force,
                named=[address.uuid for address in named],
                missing=missing,
            )

    @contextmanager
    def _monitor(
        self, named: Sequence[DeviceAddress], own: OwnProcesses, in_force: InForce
    ) -> Generator[tuple[Monitor, str]]:
        """Yield a monitor of the GPUs, and why there are none if so."""
        missing, watched = "", list(named)
        try:
            watched += beside(named, self.device, self.store)
        except DeviceError as error:  # latencies can be measured all the same
            missing = "" if named else str(error)
        devices = [open_in_real_time(address) for address in watched]
        try:
            with Monitor(
                devices=devices, synchronise=False, own=own, requested=in_force.point
            ) as monitor:
                yield monitor, missing
        finally:
            for device in devices:
                device.close()

    def _print(self, use: ServerUse) -> None:
        print_server_use(use)
        if self.json is not None:
            write_result(run_report.as_json(use), self.json)
        if self.mlflow is not None:
            load = use.load
            params = {
                "url": use.url,
                "model": use.model,
                "requests": load.num_requests,
                "concurrency": load.concurrency or "-",
                "rate_per_s": load.rate_per_s or "-",
                **run_report.clock_params(use.requested),
            }
            run_report.log_result(use, self.mlflow, self.experiment, name=use.model, params=params)


def parse(arguments: Sequence[str]) -> BenchServer:
    """Read the command line; the server's is what follows two dashes."""
    read, words = parse_before_dashes(BenchServer, arguments, prog="joulelab bench-server")
    if not words:
        return read
    if read.server.command:
        raise ConfigError("The server's command line must be given once: --command, or after --.")
    return replace(read, server=replace(read.server, command=shlex.join(words)))


def print_server_use(use: ServerUse) -> None:
    """Print tables and what they mean, on the standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    load, num = use.load, use.served.num_requests
    how = (
        f"{counted(min(load.concurrency, num), 'request')} at a time"
        if load.concurrency is not None
        else f"{load.rate_per_s:g} requests/s at random"
    )
    console.print(Text(f"{use.model} at {use.url}: {counted(num, 'request')}, {how}"))
    if use.gpus:
        console.print(run_report.gpu_table(use.gpus))
    console.print(_latencies(use))
    for line in _lines(use):
        console.print(Text(line))


def _latencies(use: ServerUse) -> Table:
    table = quiet_table(*words(""), *numbers("mean", "p50", "p90", "p99"), padding=(0, 1))
    served = use.served
    for name, spread in (
        ("time to first token", served.ttft_s),
        ("time per output token", served.tpot_s),
        ("time to the end", served.latency_s),
    ):
        table.add_row(name, *_cells(spread))
    return table


def _cells(spread: Spread | None) -> tuple[str, ...]:
    if spread is None:
        return ("-",) * 4
    values_s = (spread.mean_s, spread.p50_s, spread.p90_s, spread.p99_s)
    return tuple(brief(value_s, "s") for value_s in values_s)


def _lines(use: ServerUse) -> list[str]:
    served, known = use.served, use.metrics
    unit = "tokens" if served.has_token_counts else "pieces of the stream"
    lines = [
        f"{known['requests_per_s']:.4g} requests/s, {known['output_tokens_per_s']:.4g} {unit}/s, "
        f"goodput {known['goodput_per_s']:.4g} requests/s"
    ]
    if 0 < (num := served.num_requests - served.num_failed) < _SHOW_P99:
        lines.append(
            f"Of {counted(num, 'answer')} p99 is little else than the longest; "
            f"--requests {_SHOW_P99} or more show it."
        )
    lines += [f"Failed: {failure}" for failure in served.failures]
    if use.reason:
        lines.append(f"No energy: {use.reason}")
    else:
        relative = known["energy_u_j"] / known["energy_j"]
        for name, per in (
            ("energy_per_request_j", "request"),
            ("energy_per_output_token_j", "output token"),
            ("energy_per_output_piece_j", "piece of the stream"),
        ):
            if name in known:
                lines.append(uncertain(known[name], relative * known[name], f"J/{per}"))
        lines.append(
            f"{run_report.PLUS_MINUS_SENSOR} Energy is that of whole GPUs from the begin of the "
            "load to the last answer, idle power included."
        )
    if not served.has_token_counts and served.output_tokens:
        lines.append(
            "The server did not tell how many tokens it put out; pieces of its stream were "
            "counted, and there may be several tokens in one."
        )
    return [*lines, *run_report.conduct_lines(use), run_report.cpu_line(use.cpu)]
