"""What ``dcgmi`` is asked: which GPUs DCGM knows, and rows of its fields."""

import re

from joulelab.devices.tool import ask_tool
from joulelab.errors import DeviceError, DeviceNotFoundError

TOOL = "dcgmi"
PERIOD_S = 0.1
"""The shortest at which DCGM samples by itself."""

_LISTED = re.compile(r"^\|\s*(?P<id>\d+)\s*\|")
_UUID = re.compile(r"Device UUID:\s*(?P<uuid>\S+)")


def entities() -> dict[str, int]:
    """Return the UUIDs of the GPUs that DCGM knows, and its numbers for them.

    Raises:
        DeviceError: If DCGM is absent or its daemon does not answer.
    """
    done = ask_tool([TOOL, "discovery", "-l"])
    if done.returncode:
        output = " ".join(f"{done.stdout} {done.stderr}".split())
        raise DeviceError(
            f"{TOOL} cannot list GPUs: {output!r}; its daemon (nv-hostengine) must be running."
        )
    found: dict[str, int] = {}
    number = None
    for line in done.stdout.splitlines():
        if listed := _LISTED.match(line):
            number = int(listed["id"])
        if (uuid := _UUID.search(line)) and number is not None:
            found[uuid["uuid"]] = number
    if not found:
        raise DeviceNotFoundError(f"{TOOL} knows of no GPU.")
    return found


def row_command(entity: int, fields: list[int]) -> list[str]:
    """Return the command that prints ``fields`` of a GPU, a row every :data:`PERIOD_S`."""
    asked = ",".join(map(str, fields))
    period_ms = str(round(PERIOD_S * 1000))
    return [TOOL, "dmon", "-i", str(entity), "-e", asked, "-d", period_ms]


def answers(entity: int, field: int) -> bool:
    """Return whether a GPU has a number for ``field``."""
    done = ask_tool([*row_command(entity, [field]), "-c", "1"])
    rows = [parse_row(line, 1) for line in done.stdout.splitlines()]
    return done.returncode == 0 and any(row and None not in row for row in rows)


def parse_row(line: str, num_fields: int) -> list[float | None] | None:
    """Return the values of a row such as ``GPU 0   689.123   N/A``; ``None`` for headings.

    Raises:
        DeviceError: If it is a row but not of ``num_fields`` numbers.
    """
    words = line.split()
    if words[:1] != ["GPU"]:
        return None
    values = words[2:]
    try:
        row = [None if word == "N/A" else float(word) for word in values]
    except ValueError as error:
        raise DeviceError(f"{TOOL} must print numbers, but said {line.strip()!r}.") from error
    if len(row) != num_fields:
        raise DeviceError(f"{TOOL} must print {num_fields} values, but said {line.strip()!r}.")
    return row
