"""Driving a vendor's command-line tool, one answer or lines without end; what ``nvidia-smi`` says.

Formats are those of nvidia-smi 580.159 on an H200: values parted by ``", "``, counters in
microseconds, ``[N/A]`` for what the board lacks, exit codes as NVML's error codes, and messages
on the standard output.
"""

import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from subprocess import CompletedProcess
from typing import Generic, TypeVar

from joulelab.devices.nvml_library import error_for
from joulelab.errors import DeviceError, DeviceLostError, DeviceUnsupportedError

T = TypeVar("T")

TIMEOUT_S = 30.0
"""A tool takes 20 ms with a loaded driver and some seconds without one."""


def ask_tool(command: Sequence[str]) -> CompletedProcess[str]:
    """Run a tool to its end, whatever its exit code.

    Raises DeviceError if the tool is not installed, or does not end.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise DeviceError(f"{command[0]} is not installed, or not on the PATH.") from error
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"{command[0]} did not answer within {TIMEOUT_S:g} s.") from error


class LineStream(Generic[T]):
    """The newest of the values that a long-lived tool prints, one per line and ``period_s``.

    Starting a process for every reading would cost a core; a tool that repeats itself costs one
    line. A reading that has not come is an error, never the one before it. ``parse`` makes a value
    of a line; ``None`` for lines that hold none.
    """

    def __init__(
        self, command: Sequence[str], parse: Callable[[str], T | None], period_s: float
    ) -> None:
        self._command = list(command)
        self._parse = parse
        self._patience_s = max(2.0, 5 * period_s)
        self._fresh_s = max(0.5, 3 * period_s)
        self._arrived = threading.Condition()
        self._newest: tuple[float, T] | None = None
        self._error: Exception | None = None
        self._tail: deque[str] = deque(maxlen=5)
        self._process: subprocess.Popen[str] | None = None

    def latest(self) -> T:
        """Return the newest value, waiting for one if the last is stale; starts the tool at need.

        Raises DeviceLostError if the tool ended or fell silent; says what it said last; DeviceError
        if it printed what cannot be understood.
        """
        self._start()
        with self._arrived:
            patience_s = TIMEOUT_S if self._newest is None else self._patience_s
            give_up_s = time.monotonic() + patience_s
            while self._error is None:
                now_s = time.monotonic()
                if self._newest is not None and now_s - self._newest[0] <= self._fresh_s:
                    return self._newest[1]
                if not self._arrived.wait(give_up_s - now_s):
                    raise DeviceLostError(
                        f"{self._command[0]} printed nothing for {patience_s:g} s."
                    )
            raise self._error

    def stop(self) -> None:
        """End the tool. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()
            self._thread.join()
            self._newest = self._error = None

    def _start(self) -> None:
        if self._process is not None:
            return
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except FileNotFoundError as error:
            raise DeviceError(f"{self._command[0]} is not installed.") from error
        self._thread = threading.Thread(
            target=self._follow, args=(self._process,), name="joulelab-tool", daemon=True
        )
        self._thread.start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        error: Exception
        try:
            with process.stdout as lines:  # type: ignore[union-attr]
                for line in lines:
                    self._tail.append(line.strip())
                    value = self._parse(line)
                    if value is not None:
                        with self._arrived:
                            self._newest = (time.monotonic(), value)
                            self._arrived.notify_all()
            last_lines = " ".join(self._tail) or "nothing"
            error = DeviceLostError(
                f"{self._command[0]} ended with code {process.wait()}; it said last: {last_lines}"
            )
        except Exception as failure:  # a thread's top frame; latest() raises it
            error = failure
        with self._arrived:
            self._error = error
            self._arrived.notify_all()


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
    to the first query, one row per GPU. Raises DeviceError if the tool is absent or fails; the
    subclass says how.
    """

    def __init__(self, uuid: str | None, names: Sequence[str]) -> None:
        self._which = [] if uuid is None else ["-i", uuid]
        self._asked = {name: name for name in names}
        self._missing: dict[str, str | None] = {}
        while True:
            done = ask_tool(self.command)
            unknown = _UNKNOWN.search(done.stdout)
            if unknown is None:
                break
            self._replace(unknown["name"])
        check_exit(f"Querying {self._which[-1] if self._which else 'GPUs'}", done)
        self.rows = [self.parse(line) for line in done.stdout.splitlines() if line.strip()]

    @property
    def command(self) -> list[str]:
        """The command that asks once."""
        asked = ",".join(dict.fromkeys(self._asked.values()))
        return [TOOL, *self._which, f"--query-gpu={asked}", "--format=csv,noheader,nounits"]

    def parse(self, line: str) -> dict[str, str | None]:
        """Make a value of each field of a line; ``None`` for what the board or version lacks.

        Raises DeviceError if the line is no answer to the query.
        """
        printed = list(dict.fromkeys(self._asked.values()))
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(printed):
            raise DeviceError(
                f"{TOOL} must print {len(printed)} values, but said {line.strip()!r}."
            )
        values = {name: _known(word) for name, word in zip(printed, words, strict=True)}
        return {name: values[asked] for name, asked in self._asked.items()} | self._missing

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
    """Return the number that ``text`` is; DeviceError if it is text of another kind."""
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
