"""What a program used: as a table, as JSON, and in MLflow."""

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.quantities import PLUS_MINUS, quantity, uncertain
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.core.codec import to_json
from joulelab.core.point import OperatingPoint
from joulelab.monitor.window import CpuUse, GpuTotals, GpuUse
from joulelab.running.measure import ProgramUse
from joulelab.serving.bench import ServerUse

PLUS_MINUS_SENSOR = (
    f"{PLUS_MINUS} is the standard uncertainty of the reading; the sensor's own "
    f"{PLUS_MINUS}{SENSOR_CLASS:.0%} between boards comes on top."
)
_UNKNOWN = "-"
_FEW = 2  # GPUs that do not count are named up to this many
_SHORT = 14  # characters of a UUID that tell GPUs apart, so that a table fits into 80 columns


def print_use(use: ProgramUse) -> None:
    """Print a table and what it means, on the standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    ended = f"ended by {use.signal_name}" if use.signal_name else f"exit code {use.exit_code}"
    after = quantity(use.duration_s, "s")
    console.print(Text(f"{shlex.join(use.command)}: {ended} after {after}"))
    if use.gpus:
        console.print(gpu_table(use.gpus))
    for line in _lines(use):
        console.print(Text(line))


def as_json(use: ProgramUse | ServerUse) -> str:
    """Return the whole result as one JSON object."""
    fields = json.loads(to_json(use))
    fields["metrics"] = use.metrics
    fields["reason"] = use.reason
    return json.dumps(fields, indent=2) + "\n"


def log_to_mlflow(use: ProgramUse, uri: str, experiment: str) -> None:
    """Log the result as one run."""
    params = {
        "command": shlex.join(use.command),
        "exit_code": use.exit_code,
        **clock_params(use.requested),
    }
    log_result(use, uri, experiment, name=Path(use.command[0]).name, params=params)


def clock_params(point: OperatingPoint) -> dict[str, object]:
    """Return what was put in force, as parameters of a run."""
    return {
        "sm_clock_mhz": point.sm_clock_mhz or "default",
        "mem_clock_mhz": point.mem_clock_mhz or "default",
        "power_limit_w": point.power_limit_w or "default",
    }


def log_result(
    use: ProgramUse | ServerUse,
    uri: str,
    experiment: str,
    *,
    name: str,
    params: Mapping[str, object],
) -> None:
    """Log a result as one run of an experiment."""
    from joulelab.tracking.mlflow_store import usable_uri
    from joulelab.tracking.mlflow_tracker import FinishedRun, log_run

    failed = use.exit_code != 0 if isinstance(use, ProgramUse) else use.served.num_failed > 0
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        result.write_text(as_json(use))
        ended = FinishedRun(
            experiment=experiment,
            name=name,
            started_at=use.provenance.started_at,
            duration_s=use.metrics["duration_s"],
            params=params,
            metrics=use.metrics,
            tags={
                "gpu": ", ".join(sorted({gpu.name for gpu in use.gpus})),
                "gpu_uuid": ", ".join(gpu.uuid for gpu in use.gpus),
                "reason": use.reason,
                "provenance.hostname": use.provenance.hostname,
                "provenance.joulelab_version": use.provenance.joulelab_version,
            },
            file=result,
            succeeded=not failed and not use.reason,
        )
        log_run(usable_uri(uri), ended)


def gpu_table(gpus: Sequence[GpuUse]) -> Table:
    """Return a table of GPUs and what they used."""
    heads = "energy", "mean", "peak", "SM clock", "time"
    table = quiet_table(*words("GPU"), *numbers(*heads), padding=(0, 0))
    for gpu in gpus:
        table.add_row(*_row(gpu))
    if len(gpus) > 1 and all(gpu.valid for gpu in gpus):
        total = GpuTotals.of(gpus)
        energy = uncertain(total.energy_j, total.energy_u_j, "J")
        table.add_row("together", energy, quantity(total.power_w, "W"), "", "", "")
    return table


def cpu_line(cpu: CpuUse) -> str:
    """Say what the processors used, or why that is not known."""
    if cpu.known_package_j is None:
        return f"CPU: {cpu.reason}"
    dram = "" if cpu.known_dram_j is None else f", memory {quantity(cpu.known_dram_j, 'J')}"
    packages = quantity(cpu.known_package_j, "J")
    return f"CPU packages {packages}{dram}, all programs of the machine together."


def _row(gpu: GpuUse) -> tuple[str, ...]:
    name = f"{gpu.name}\n{gpu.uuid[:_SHORT]}"
    clock = _UNKNOWN if gpu.sm_clock_mhz is None else f"{gpu.sm_clock_mhz:g} MHz"
    length = quantity(gpu.duration_s, "s")
    if not gpu.valid:
        return (name, _UNKNOWN, _UNKNOWN, _UNKNOWN, clock, length)
    peak = _UNKNOWN if gpu.peak_power_w is None else quantity(gpu.peak_power_w, "W")
    energy = uncertain(gpu.energy_j, gpu.energy_u_j, "J")
    return (name, energy, quantity(gpu.power_w, "W"), peak, clock, length)


def conduct_lines(use: ProgramUse | ServerUse) -> list[str]:
    """Say what was in force, and what was not as it should be."""
    lines = [
        f"{receipt.uuid} ran at {receipt.requested.label}, set by {receipt.set_by}."
        for receipt in use.receipts
    ]
    for gpu in use.gpus:
        if gpu.valid:  # else they are the reason
            lines += [f"{gpu.uuid}: {finding}" for finding in gpu.findings]
    return [*lines, *use.notes]


def _drawn(gpus: Sequence[GpuUse]) -> str:
    """Say what GPUs drew, each if they are few, else together."""
    if len(gpus) <= _FEW:
        return ", ".join(f"{gpu.uuid} drew {quantity(gpu.energy_j, 'J')}" for gpu in gpus)
    together = quantity(GpuTotals.of(gpus).energy_j, "J")
    return f"{len(gpus)} other GPUs drew {together} together (each is in the JSON)"


def _lines(use: ProgramUse) -> list[str]:
    lines = [f"No energy: {use.reason}"] if use.reason else []
    lines.append(cpu_line(use.cpu))
    lines += conduct_lines(use)
    if others := [gpu for gpu in use.others if gpu.valid]:
        lines.append(f"Not counted: {_drawn(others)} meanwhile.")
    if not use.reason:
        lines.append(f"{PLUS_MINUS_SENSOR} Start, loading and idle times are in the energy.")
    return lines
