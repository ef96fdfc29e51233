"""What ``nvidia-smi`` prints, and the names under which its versions print it.

Formats as printed by nvidia-smi 580.159 on an H200: values parted by ``", "``, counters in
microseconds, ``[N/A]`` for what the board lacks, exit codes as NVML's error codes, and messages
on the standard output.
"""

import re
from collections.abc import Sequence
from subprocess import CompletedProcess

from joulelab.devices.nvml_library import error_for
from joulelab.devices.tool import ask_tool
from joulelab.errors import DeviceError, DeviceLostError, DeviceUnsupportedError

TOOL = "nvidia-smi"

# A name that a version does not know is asked for under its older name, or not at all.
_OLDER = {
    "power.draw.instant": "power.draw",
    "power.draw.average": "power.draw",
    "clocks_event_reasons.active": "clocks_throttle_reasons.active",
}
_UNKNOWN = re.compile(r'Field "(?P<name>[^"]+)" is not a valid field')


class SmiQuery:
    """Fields, in the words of a recent version, of one GPU, or of all if it is ``None``.

    They are asked for in the words of the ``nvidia-smi`` that is installed. ``rows`` is the answer
    to the first query, one row per GPU.

    Raises:
        DeviceError: If the tool is absent or fails; the subclass says how.
    """

    def __init__(self, uuid: str | None, names: Sequence[str]) -> None:
        self._which = [] if uuid is None else ["-i", uuid]
        self._asked = {name: name for name in names}
        self._missing: dict[str, str | None] = {}
        self.rows = self._negotiated()

    @property
    def command(self) -> list[str]:
        """The command that asks once."""
        asked = ",".join(dict.fromkeys(self._asked.values()))
        return [TOOL, *self._which, f"--query-gpu={asked}", "--format=csv,noheader,nounits"]

    def parse(self, line: str) -> dict[str, str | None]:
        """Make a value of each field of a line; ``None`` for what the board or version lacks.

        Raises:
            DeviceError: If the line is no answer to the query.
        """
        printed = list(dict.fromkeys(self._asked.values()))
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(printed):
            raise DeviceError(
                f"{TOOL} must print {len(printed)} values, but said {line.strip()!r}."
            )
        values = {name: _known(word) for name, word in zip(printed, words, strict=True)}
        return {name: values[asked] for name, asked in self._asked.items()} | self._missing

    def _negotiated(self) -> list[dict[str, str | None]]:
        while True:
            done = ask_tool(self.command)
            unknown = _UNKNOWN.search(done.stdout)
            if unknown is None:
                break
            self._replace(unknown["name"])
        check_exit(f"Querying {self._which[-1] if self._which else 'GPUs'}", done)
        return [self.parse(line) for line in done.stdout.splitlines() if line.strip()]

    def _replace(self, unknown: str) -> None:
        for name, asked in list(self._asked.items()):
            if asked == unknown and unknown in _OLDER:
                self._asked[name] = _OLDER[unknown]
            elif asked == unknown:
                del self._asked[name]
                self._missing[name] = None


def check_exit(what: str, done: CompletedProcess[str]) -> None:
    """Raise the package's error for an ``nvidia-smi`` that failed.

    A setting that the board lacks is "treated as a warning", with exit code 0.
    """
    output = " ".join(f"{done.stdout} {done.stderr}".split())
    if done.returncode:
        raise error_for(done.returncode, f"{what} with {TOOL}", output)
    if "is not supported" in output:
        raise DeviceUnsupportedError(f"{what} with {TOOL} failed: it says {output!r}.")


def number(text: str | None) -> float | None:
    """Return the number that ``text`` is.

    Raises:
        DeviceError: If it is text of another kind.
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise DeviceError(f"{TOOL} must print a number, but said {text!r}.") from error


def switch(text: str | None) -> bool | None:
    """Return whether a mode is enabled; ``None`` where there is none."""
    return None if text is None else text == "Enabled"


def _known(word: str) -> str | None:
    if "is lost" in word or "requires reset" in word:
        raise DeviceLostError(f"{TOOL} says {word}.")
    return None if word.startswith("[") or word in {"", "N/A"} else word
