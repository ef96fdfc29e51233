"""``joulelab doctor``: whether results of this machine can be believed."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.cli.checks import Check, Status, Verdict, check_device, run_checks, who_guards
from joulelab.cli.selection import find_addresses, open_device
from joulelab.core.device import DeviceAddress
from joulelab.errors import DeviceError
from joulelab.guard import default_socket_path
from joulelab.tracking.durable import check_folder
from joulelab.tracking.store import DEFAULT_RESULTS

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_LEAST_FREE_B = 2 * 10**9
_LIBRARIES = {
    "torch": "runs the workloads",
    "ray": "runs studies on several GPUs",
    "mlflow": "shows studies side by side",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """Check that results measured here can be believed; each line says what to do.

    The machine comes first, then every GPU. These should be idle; nothing on them is changed. It
    takes some fifteen seconds.

    Attributes:
        device: How to talk to them: nvml, dcgm, smi, simulated or replay; auto takes the best.
        uuid: Only these devices.
        store: Folder of driver state or recordings, for devices that are not hardware.
        json: Print one JSON object, devices and "machine" to checks, instead of tables.
    """

    device: str = "auto"
    uuid: tuple[str, ...] = ()
    store: str | None = None
    json: bool = False

    def run(self) -> int:
        """Check the machine and every device at once, and print it; 1 if something failed."""
        machine, addresses = list(run_checks(_MACHINE)), list[DeviceAddress]()
        try:
            addresses = find_addresses(self.device, self.store, self.uuid)
        except DeviceError as error:
            if self.uuid:  # a wrong request, and no finding
                raise
            machine.insert(0, Check(what="GPU", status="fail", found=str(error)))
        with ThreadPoolExecutor(max(1, len(addresses))) as pool:
            checked = dict(zip(addresses, pool.map(_examine, addresses), strict=True))
        every = {"machine": machine, **{a.uuid: checks for a, checks in checked.items()}}
        if self.json:
            found_by_name = {
                name: [asdict(each) for each in checks] for name, checks in every.items()
            }
            print(json.dumps(found_by_name, indent=2))
        else:
            console = Console()
            console.print(_table("this machine", machine))
            for address, checks in checked.items():
                console.print(_table(f"{address.uuid} through {address.backend}", checks))
        return int(any(check.status == "fail" for each in every.values() for check in each))


def _examine(address: DeviceAddress) -> list[Check]:
    try:
        device = open_device(address)
    except DeviceError as error:
        return [
            Check(what="opening it", status="fail", found=str(error), advice="Mend this first.")
        ]
    with closing(device):
        return list(check_device(device, address))


def _table(title: str, checks: list[Check]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column)
    for check in checks:
        status = Text(check.status, style=_STYLES[check.status])
        table.add_row(status, check.what, Text(check.found), Text(check.advice))
    return table


def _check_results() -> Verdict:
    folder = DEFAULT_RESULTS.expanduser()
    check_folder(folder)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free_b = shutil.disk_usage(there).free
    found = f"{folder} can be written, {free_b / 1e9:.0f} GB are free"
    if free_b >= _LEAST_FREE_B:
        return "ok", found, ""
    return "warn", found, "Make room, or name another folder with --results-dir."


def _check_libraries() -> Verdict:
    known = {name: _version(name) for name in _LIBRARIES}
    found = ", ".join(f"{name} {number or 'absent'}" for name, number in known.items())
    missing = [f"{name}, which {_LIBRARIES[name]}" for name in known if known[name] is None]
    return ("warn", found, f"Install {'; '.join(missing)}.") if missing else ("ok", found, "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


_MACHINE: dict[str, Callable[[], Verdict]] = {
    "clock guard": lambda: ("ok", who_guards(default_socket_path()), ""),
    "results": _check_results,
    "libraries": _check_libraries,
}
"""Checks that need no GPU."""
