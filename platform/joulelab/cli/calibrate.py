"""``joulelab calibrate``: figures of a device, of a host, or of one board in its machine."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.table import Table
from rich.text import Text

from joulelab.analysis.quantities import brief
from joulelab.analysis.table import check_target, numbers, quiet_table, words
from joulelab.cli.options import ClockOptions
from joulelab.cli.terminal import Printing, progress
from joulelab.core.device import board_words
from joulelab.errors import ConfigError
from joulelab.estimator.calibration.anchors import read_anchors
from joulelab.estimator.calibration.fit import Calibration, FittedFigure, Residual, calibrate
from joulelab.hardware.board_facts import BoardFacts, Fact, board_text
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import (
    FASTEST,
    HOSTS,
    PROCESSORS,
    SLOWEST,
    TYPICAL,
    Host,
    host_file,
)
from joulelab.tracking.addresses import discreet
from joulelab.tracking.durable import write_whole
from joulelab.tracking.mlflow_registry import check_name, store_of

_MOST = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate(Printing):
    """Fit a device's figures to micro-benchmarks, or measure this machine: its host, or a board.

    Micro-benchmarks that break physics are refused.
    """

    # Table that `benchmarks/estimator_anchors.py` wrote on the device.
    anchors: tyro.conf.Positional[Path | None] = None
    # The device, as `joulelab processors` lists it; for --board how to talk to the GPU: nvml, dcgm,
    # smi or simulated, by default the best that finds one.
    device: str | None = None
    # Measure what launching kernels takes on this machine instead, in a few seconds.
    host: bool = False
    # Measure one GPU and this machine, in some five minutes in which nothing else may run on it:
    # sensors and their delay, idle power, leakage, what memory and units achieve, what launching
    # takes, and where clocks may be set power over clocks and the knee of voltage.
    board: bool = False
    uuid: str | None = None  # For --board, which GPU; by default the first.
    # For --board, which GPU to simulate, by its catalogue key; for simulated alone.
    gpu: str | None = None
    store: str | None = None  # For --board, folder with the state of simulated GPUs.
    observe_only: bool = False  # For --board, call no setter, ever.
    # For --board, socket of the clock guard that clocks are borrowed from.
    guard_socket: Path | None = None
    # Write the figures to this file: .json of a device or a board, .toml of a host.
    out: Path | None = None
    # For --board, keep the figures as the next version of this name in an MLflow store, where
    # --calibration models:/NAME finds them.
    register: str | None = None
    # MLflow store to register in; by default that of studies, mlflow.db in the results folder.
    tracking_uri: str | None = None

    def run(self) -> int:
        """Fit or measure, print and write."""
        if self.host and self.board:
            raise ConfigError("--board measures the host, too: leave --host out.")
        if self.board:
            return self._measure_board()
        if self.register is not None:
            raise ConfigError("--register keeps what --board measures: give both.")
        if self.host:
            return self._measure_host()
        if self.anchors is None or self.device is None:
            raise ConfigError(
                "calibrate takes a table of micro-benchmarks and --device, or --host to measure "
                "this machine as a host, or --board to measure a GPU in it."
            )
        return self._fit(self.anchors, PROCESSORS[self.device])

    def _measure_host(self) -> int:
        from joulelab.estimator.calibration.host_speed import measure_host

        if self.anchors is not None or self.device is not None:
            raise ConfigError("--host measures this machine: give it no table and no --device.")
        check_target(self.out, ".toml")
        found = measure_host("host" if self.out is None else self.out.stem)
        if self.out is not None:
            write_whole(self.out, host_file(found))
        content = {name: asdict(one) for name, one in found.figures.items()}
        self.show(content, lambda: [host_table(found)])
        return 0

    def _measure_board(self) -> int:
        from joulelab.bench import Bench
        from joulelab.cli.options import choose_address
        from joulelab.devices.choice import open_device
        from joulelab.running.board import host_facts, measure_board
        from joulelab.study.abstract_lab import check_guard_socket

        if self.anchors is not None:
            raise ConfigError("--board measures this machine: give it no table.")
        check_target(self.out, ".json")
        check_guard_socket(self.guard_socket)
        keep = self._keeping()  # a store that cannot be used is refused before five minutes pass
        kind = self.device or "auto"
        address = choose_address(kind, store=self.store, uuid=self.uuid, gpu=self.gpu)
        options = ClockOptions(observe_only=self.observe_only, guard_socket=self.guard_socket)
        with (
            closing(open_device(address)) as device,
            options.control(address, device, note="joulelab calibrate") as control,
            progress() as tell,
            Bench(device, control=control) as bench,
        ):
            found = measure_board(
                device, bench, sets_clocks=not self.observe_only, host=host_facts, report=tell
            )
        if self.out is not None:
            write_whole(self.out, board_text(found))
        kept = [] if keep is None else [keep(found)]
        self.show(asdict(found), lambda: [board_table(found), *kept])
        return 0

    def _keeping(self) -> Callable[[BoardFacts], str] | None:
        """Return what registers a board and says where; ``None`` if nothing is to."""
        from joulelab.tracking.mlflow_calibrations import register_calibration

        if (name := self.register) is None:
            return None
        check_name(name)
        uri = store_of(self.tracking_uri)
        return lambda found: f"{register_calibration(uri, name, found).uri} in {discreet(uri)}"

    def _fit(self, anchors: Path, processor: Processor) -> int:
        check_target(self.out, ".json")
        found = calibrate(processor, read_anchors(anchors))
        content = _fitted_fields(processor.key, found)
        if self.out is not None:
            write_whole(self.out, json.dumps(content, indent=2) + "\n")
        refused = [f"refused: {name}: {reason}" for name, reason in found.rejected.items()]
        self.show(
            content,
            lambda: [
                Text(calibration_sentence(found), style="bold"),
                figures_table(found.figures),
                residuals_table(found),
                *(Text(each, style="yellow") for each in refused),
            ],
        )
        return 0


def board_table(found: BoardFacts) -> Table:
    """Lay out what was found of a board, and why the rest is missing."""
    table = quiet_table(
        *words("figure"), *numbers("value", "95 %"), "", title=board_words(found.device)
    )
    for fact in found.facts:
        table.add_row(fact.name, *_shown(fact), fact.reason)
    table.caption = f"{len(found.curve)} points of power over clocks; host {found.host}"
    return table


def _shown(fact: Fact) -> tuple[str, str]:
    if fact.value is None:
        return "", ""
    return f"{fact.value:.4g}", "" if fact.u is None else f"± {1.96 * fact.u:.2g}"


def host_table(host: Host) -> Table:
    """Lay out a host's figures beside those of the catalogue, in microseconds."""
    others = [HOSTS[name] for name in (FASTEST, TYPICAL, SLOWEST)]
    table = quiet_table(
        *words("call"), *numbers("here", *(one.key for one in others)), title="Microseconds a call"
    )
    for name in others[0].figures:
        values = [one.figures[name].value for one in (host, *others)]
        table.add_row(name.partition(".")[2], *(f"{1e6 * value:.3g}" for value in values))
    table.caption = (
        f"{next(iter(host.figures.values())).source}, without the {host.disturbed:.0%} of the time "
        "in which others slowed its cores"
    )
    return table


def _fitted_fields(device: str, found: Calibration) -> dict[str, object]:
    return {
        "device": device,
        "time_error": found.time_error,
        "energy_error": found.energy_error,
        "figures": [asdict(figure) for figure in found.figures],
        "points": [
            {
                "name": one.anchor.name,
                "time_error": one.time_error,
                "energy_error": one.energy_error,
                "fitted": one.fitted,
            }
            for one in found.residuals
        ],
        "rejected": dict(found.rejected),
    }


def calibration_sentence(found: Calibration) -> str:
    """Say how well the fitted device agrees with what was measured on it."""
    fitted = sum(one.fitted for one in found.residuals)
    return (
        f"{found.processor.product_name}: {len(found.figures)} figures fitted to {fitted} of "
        f"{len(found.residuals)} micro-benchmarks; mean error {found.time_error:.1%} of time and "
        f"{found.energy_error:.1%} of energy. These points were fitted to: what estimates are "
        "worth is for networks to say (joulelab validate)."
    )


def figures_table(figures: Sequence[FittedFigure]) -> Table:
    """Lay out every fitted figure, before and after."""
    table = quiet_table(*words("figure"), *numbers("before", "fitted", "points"), "")
    for figure in figures:
        note = "at its bound: not identified" if figure.at_bound else ""
        values = [f"{value:.4g}" for value in (figure.before, figure.value)]
        table.add_row(figure.name, *values, str(figure.num_points), note)
    return table


def residuals_table(found: Calibration) -> Table:
    """Lay out the points that agree least."""
    table = quiet_table(
        *words("micro-benchmark"),
        *numbers("measured", "time error", "energy error"),
        "",
        title="Micro-benchmarks that agree least",
    )
    for one in sorted(found.residuals, key=_worst, reverse=True)[:_MOST]:
        energy = "" if one.energy_error is None else f"{one.energy_error:+.1%}"
        measured = brief(one.anchor.time_s, "s")
        note = "" if one.fitted else "not fitted to"
        table.add_row(one.anchor.name, measured, f"{one.time_error:+.1%}", energy, note)
    return table


def _worst(one: Residual) -> float:
    return max(abs(one.time_error), abs(one.energy_error or 0.0))
