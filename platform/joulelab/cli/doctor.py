"""``joulelab doctor``: whether results of this machine can be believed."""

import importlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.cli.checks import check_device, who_guards
from joulelab.cli.options import SomeGpus
from joulelab.cli.terminal import terminal
from joulelab.core.check import Check, CheckOutcome, Status, run_checks
from joulelab.core.device import DeviceAddress
from joulelab.core.host_pace import slowed_share
from joulelab.devices.choice import open_device
from joulelab.errors import ConfigError, DeviceError
from joulelab.guard import default_socket_path
from joulelab.provenance import package_version
from joulelab.tracking.durable import LEAST_FREE_B, check_folder
from joulelab.tracking.store import DEFAULT_RESULTS

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_LIBRARIES = {
    "torch": "runs the workloads",
    "ray": "runs studies on several GPUs",
    "mlflow": "shows studies side by side",
}
_LOOK_S, _SLOWED = 1.0, 0.2
"""How long the host's core is looked at, and up to which share others may slow it: of a fifth,
times of programs behind H200s' hosts were within what estimates are off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor(SomeGpus):
    """Check that results measured here can be believed; each line says what to do.

    The machine comes first, then every GPU. These should be idle; nothing on them is changed. It
    takes some fifteen seconds.
    """

    results_dir: Path = DEFAULT_RESULTS  # Folder for the results of studies.
    # Look at every node of the Ray cluster at RAY_ADDRESS instead: its GPUs, guard, versions,
    # system clock and results folder; no device is calibrated.
    cluster: bool = False
    # Print one JSON object, devices and "machine" or nodes to checks, instead of tables.
    json: bool = False

    def run(self) -> int:
        """Check the machine and every device at once, and print it; 1 if something failed."""
        every = self._nodes() if self.cluster else self._here()
        if self.json:
            found = {name: [asdict(each) for each in checks] for name, checks in every.items()}
            print(json.dumps(found, indent=2))
        elif self.cluster:
            console = terminal()
            console.print(_cluster_table(every))
            for line in _advice(every):
                console.print(line, soft_wrap=True)
        else:
            console = Console()
            for name, checks in every.items():
                console.print(_table("this machine" if name == "machine" else name, checks))
        return int(any(check.status == "fail" for each in every.values() for check in each))

    def _nodes(self) -> dict[str, list[Check]]:
        if self.uuid:
            raise ConfigError("--cluster looks at every GPU of every node; leave --uuid out.")
        # By name: Ray is no part of this package.
        doctor = importlib.import_module("joulelab_actors.cluster_doctor")
        found: dict[str, list[Check]] = doctor.check_cluster(
            self.device, self.store, self.results_dir
        )
        return found

    def _machine(self) -> dict[str, Callable[[], CheckOutcome]]:
        """Return the checks that need no GPU."""
        return {
            "clock guard": lambda: who_guards(default_socket_path()),
            "results": lambda: _check_results(self.results_dir.expanduser()),
            "host's core": _check_core,
            "libraries": _check_libraries,
        }

    def _here(self) -> dict[str, list[Check]]:
        machine, addresses = list(run_checks(self._machine())), list[DeviceAddress]()
        try:
            addresses = self.addresses()
        except DeviceError as error:
            if self.uuid:  # a wrong request, and no finding
                raise
            machine.insert(0, Check(what="GPU", status="fail", found=str(error)))
        with ThreadPoolExecutor(max(1, len(addresses))) as pool:
            checked = dict(zip(addresses, pool.map(_examine, addresses), strict=True))
        return {"machine": machine, **{a.uuid: checks for a, checks in checked.items()}}


def _examine(address: DeviceAddress) -> list[Check]:
    try:
        device = open_device(address)
    except DeviceError as error:
        return [
            Check(what="opening it", status="fail", found=str(error), advice="Mend this first.")
        ]
    with closing(device):
        backend = Check(what="backend", status="ok", found=address.backend)
        return [backend, *check_device(device, address)]


def _table(title: str, checks: list[Check]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column)
    for check in checks:
        status = Text(check.status, style=_STYLES[check.status])
        table.add_row(status, check.what, Text(check.found), Text(check.advice))
    return table


def _cluster_table(every: Mapping[str, Sequence[Check]]) -> Table:
    """Draw one row per node, with a column for whatever was checked on any."""
    columns = list(dict.fromkeys(check.what for checks in every.values() for check in checks))
    table = Table("node", *columns, show_lines=True)
    for name, checks in every.items():
        cells = {each.what: Text(each.found, style=_STYLES[each.status]) for each in checks}
        table.add_row(Text(name), *(cells.get(column, Text("")) for column in columns))
    return table


def _advice(every: Mapping[str, Sequence[Check]]) -> Iterator[Text]:
    """Say what to do, once for all nodes on which it is the same."""
    nodes: dict[Check, list[str]] = {}
    for name, checks in every.items():
        for check in checks:
            if check.status != "ok":
                nodes.setdefault(replace(check, found=""), []).append(name)
    for check, names in nodes.items():
        head = f"{check.status} {check.what}"
        yield Text.assemble(
            (head, _STYLES[check.status]), f" on {', '.join(names)}: {check.advice}"
        )


def _check_results(folder: Path) -> CheckOutcome:
    check_folder(folder)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free_b = shutil.disk_usage(there).free
    found = f"{folder} can be written, {free_b / 1e9:.0f} GB are free"
    if free_b >= LEAST_FREE_B:
        return "ok", found, ""
    return "warn", found, "Make room, or name another folder with --results-dir."


def _check_core() -> CheckOutcome:
    share = slowed_share(_LOOK_S)
    found = f"others slowed it for {share:.0%} of {_LOOK_S:g} s"
    if share <= _SLOWED:
        return "ok", found, ""
    return (
        "warn",
        found,
        "Programs that launch small kernels take up to 1.6 times as long meanwhile: give the job "
        "cores of its own, and compare results by their host_disturbed_share.",
    )


def _check_libraries() -> CheckOutcome:
    known = {name: package_version(name) for name in _LIBRARIES}
    found = ", ".join(f"{name} {number or 'absent'}" for name, number in known.items())
    missing = [f"{name}, which {_LIBRARIES[name]}" for name in known if known[name] is None]
    return ("warn", found, f"Install {'; '.join(missing)}.") if missing else ("ok", found, "")
