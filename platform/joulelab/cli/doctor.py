"""``joulelab doctor``: is this machine fit to measure on, and if not, what to do."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.cli.checks import Check, Status, check_device
from joulelab.cli.selection import find_addresses, open_device
from joulelab.core.device import DeviceAddress
from joulelab.errors import DeviceError

_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """Check that results measured here can be believed; each line says what to do.

    The GPUs should be idle; nothing on them is changed. It takes some fifteen seconds.

    Attributes:
        device: How to talk to them: nvml, dcgm, smi, simulated or replay; auto takes the best.
        uuid: Only these devices.
        store: Folder of driver state or recordings, for devices that are not hardware.
        json: Print one JSON object, devices to checks, instead of tables.
    """

    device: str = "auto"
    uuid: tuple[str, ...] = ()
    store: str | None = None
    json: bool = False

    def run(self) -> int:
        """Check every device at once and print what was found.

        Returns:
            0 if nothing failed, else 1.

        Raises:
            DeviceError: If there is no device.
        """
        addresses = find_addresses(self.device, self.store, self.uuid)
        with ThreadPoolExecutor(len(addresses)) as pool:
            checked = dict(zip(addresses, pool.map(_examine, addresses), strict=True))
        if self.json:
            told = {a.uuid: [asdict(check) for check in checks] for a, checks in checked.items()}
            print(json.dumps(told, indent=2))
        else:
            console = Console()
            for address, checks in checked.items():
                console.print(_table(address, checks))
        return int(any(check.status == "fail" for each in checked.values() for check in each))


def _examine(address: DeviceAddress) -> list[Check]:
    try:
        device = open_device(address)
    except DeviceError as error:
        return [
            Check(what="opening it", status="fail", found=str(error), advice="Mend this first.")
        ]
    try:
        return list(check_device(device, address))
    finally:
        device.close()


def _table(address: DeviceAddress, checks: list[Check]) -> Table:
    table = Table(title=f"{address.uuid} through {address.backend}", title_justify="left")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column)
    for check in checks:
        status = Text(check.status, style=_STYLES[check.status])
        table.add_row(status, check.what, Text(check.found), Text(check.advice))
    return table
