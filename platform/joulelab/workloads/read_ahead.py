"""Have files read into memory that a program will load, beside one that is measured.

The files are all that is done ahead. Building a network in this process would hold Python's lock in
windows of a program that waits for its host, and another process could not hand it over; but what
any process has read is in memory for the next one. The reader is of the kernel's idle class, so
that it runs only where a core has nothing else to do, can be halted at once, and ends with the
process that started it, however that ends.
"""

import ctypes
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

_CHUNK_B = 1 << 23
_SUFFIXES = (".safetensors", ".bin")
_MOST_SHARE = 0.5
"""Share of the free memory that files may take: others would drive out what was read first."""
_SET_DEATH_SIGNAL = 1  # of prctl
_START = (
    "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); "
    "from joulelab.workloads.read_ahead import main; main()"
)


class Reading(ABC):
    """Something that is read ahead, and can be halted."""

    @abstractmethod
    def go_on(self) -> None:
        """Read on."""

    @abstractmethod
    def halt(self) -> None:
        """Stand still, from now on."""

    @abstractmethod
    def close(self) -> None:
        """End, whether all is read or not. Safe to call twice."""


class FileReading(Reading):
    """Reads the weights in a folder or of a hub id, those that this machine has.

    It ends with the thread that makes it.
    """

    def __init__(self, weights: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _START, str(os.getpid()), weights],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def wait(self, limit_s: float) -> bool:
        """Wait until all is read; return whether it was within ``limit_s``."""
        try:
            return self._child.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False

    @override
    def go_on(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    @override
    def halt(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    @override
    def close(self) -> None:
        self._child.kill()
        self._child.wait()


def main() -> None:
    """Read the weights that the second argument names, as a child of the process of the first."""
    parent, weights = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        return
    files = files_of(weights)
    if sum(each.stat().st_size for each in files) <= _MOST_SHARE * _free_b():
        for each in files:
            buffer = bytearray(_CHUNK_B)
            with suppress(OSError), each.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


def files_of(weights: str) -> Sequence[Path]:
    """Return the files of a checkpoint that are here; none are fetched."""
    folder = Path(weights)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(weights, local_files_only=True))
    return [each for each in sorted(folder.rglob("*")) if each.suffix in _SUFFIXES]


def _free_b() -> float:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return 0.0
