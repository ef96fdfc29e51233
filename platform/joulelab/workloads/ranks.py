"""A program on several GPUs of one machine, a process on each, run as one workload.

Run as a program, this module is one of those processes, which does what the measuring one says.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from typing_extensions import override

from joulelab.core.energy import EnergyWindow
from joulelab.errors import ConfigError, MeasurementError
from joulelab.workloads.base import Workload
from joulelab.workloads.read_ahead import Reading
from joulelab.workloads.sums import WaitLog, waited_s

Answer = TypeVar("Answer")


class StandIn(Workload[Any]):
    """Has the settings, the phases and the unit of the workload that it stands for."""

    def __init__(self, workload: Workload[Any]) -> None:
        super().__init__(workload.settings)
        self.unit = workload.unit  # type: ignore[misc]  # of this one, not of its class
        self._workload = workload

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._workload.phases

    @override
    def parts(self, phase: str) -> int:
        return self._workload.parts(phase)


_RUN_S = 0.2
"""A run lasts about so long: between two of them the GPUs wait for this process."""
_CLOSE_S = 30.0


def num_sharing(workload: Workload[Any]) -> int:
    """Return how many GPUs share every layer of a workload."""
    return int(getattr(workload.settings, "tensor_parallel", 1))


def shares_layers(workload: Workload[Any], num_gpus: int) -> bool:
    """Whether GPUs compute one program together, or a copy each; ConfigError if so many cannot."""
    degree = num_sharing(workload)
    if degree not in (1, num_gpus):
        raise ConfigError(
            f"tensor_parallel must be 1, a copy of the program on each GPU, or {num_gpus}, the "
            f"GPUs of a trial, got {degree}; see --gpus-per-trial."
        )
    return degree > 1


class Ranks(StandIn):
    """Runs a workload on each of some GPUs, and counts the work of all.

    They run as tensor parallel where the setting of that name says so, and otherwise each a copy
    (data parallel). ``uuids`` are in the order of ranks; other processes must import the class.
    """

    def __init__(self, workload: Workload[Any], uuids: Sequence[str]) -> None:
        super().__init__(workload)
        self._uuids = tuple(uuids)
        self._is_shared = shares_layers(workload, len(uuids))
        self._children: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._times: dict[str, int] = {}
        self._phases: tuple[str, ...] = ()
        self._waits = WaitLog()

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._phases or super().phases

    @property
    @override
    def processes(self) -> tuple[int, ...]:
        return tuple(child.pid for child in self._children)

    @override
    def prepare(self) -> None:
        self._folder = TemporaryDirectory(prefix="joulelab-ranks-")
        meeting = str(Path(self._folder.name) / "meeting") if self._is_shared else ""
        try:
            for rank, uuid in enumerate(self._uuids):
                self._start(uuid, rank, meeting)
            self._phases = self.on_each(_prepared)[0]
        except BaseException:
            self.close()
            raise

    @override
    def read_ahead(self) -> Reading | None:
        return self._workload.read_ahead()

    @override
    def run(self, phase: str) -> float:
        times, start_s = self._times.get(phase, 1), time.monotonic()
        works, sums_s = zip(*self.on_each(partial(_run, phase=phase, times=times)), strict=True)
        work = float(works[0] if self._is_shared else sum(works))
        if self._is_shared:
            self._waits.add(start_s, time.monotonic(), work, waited_s(sums_s))
        each_s = (time.monotonic() - start_s) / times
        self._times.setdefault(phase, max(1, ceil(_RUN_S / each_s)))
        return work

    @override
    def figures(self, windows: Sequence[EnergyWindow]) -> Mapping[str, float]:
        return self._waits.figures(windows)

    @override
    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for child in self._children:
            try:
                child.wait(_CLOSE_S if child.poll() is None and self._times else 1.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children, self._connections, self._times, self._phases = [], [], {}, ()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self, uuid: str, rank: int, meeting: str) -> None:
        """Start the process of a rank, which sees its own GPU alone."""
        here, there = Pipe()
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._children.append(
            subprocess.Popen(
                [sys.executable, "-m", "joulelab.workloads.ranks", str(there.fileno())],
                env=os.environ | paths | {"CUDA_VISIBLE_DEVICES": uuid},
                pass_fds=[there.fileno()],
            )
        )
        there.close()
        self._connections.append(here)
        try:
            here.send((type(self._workload), self.settings, rank, len(self._uuids), meeting))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"{type(self._workload).__name__} cannot be run by a process on each GPU: {error}. "
                "Start your own processes (torchrun), and measure them with `joulelab run`."
            ) from error

    def on_each(self, asked: Callable[[Workload[Any]], Answer]) -> list[Answer]:
        """Call a function, pickled, with every rank's workload at once; return all answers.

        Raises MeasurementError, which says why, if a rank failed.
        """
        for connection in self._connections:
            connection.send(asked)
        answers: dict[int, Answer] = {}
        while len(answers) < len(self._connections):
            left = [each for rank, each in enumerate(self._connections) if rank not in answers]
            for rank in [self._connections.index(each) for each in wait(left)]:  # type: ignore[arg-type]
                answers[rank] = self._answer(rank)
        return [answers[rank] for rank in range(len(answers))]

    def _answer(self, rank: int) -> Any:
        try:
            has_failed, answer = self._connections[rank].recv()
        except (EOFError, ConnectionResetError):
            has_failed, answer = True, "its process has ended"
        if has_failed:
            for child in self._children:  # which may wait for the one that failed
                child.kill()
            raise MeasurementError(f"Rank {rank} on {self._uuids[rank]} failed: {answer}")
        return answer


def join(rank: int, num_ranks: int, meeting: str) -> None:
    """Join the group that meets at the file ``meeting``: NCCL on GPUs, gloo without."""
    import torch
    from torch import distributed

    on_gpu = torch.cuda.is_available()
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=num_ranks,
        device_id=torch.device("cuda", 0) if on_gpu else None,
    )


def _prepared(workload: Workload[Any]) -> tuple[str, ...]:
    """Prepare the workload of a rank; return its phases, which may be known only then."""
    workload.prepare()
    return workload.phases


def _run(workload: Workload[Any], phase: str, times: int) -> tuple[float, list[float]]:
    """Run a phase; return the work, and the times of some of its sums, in seconds."""
    work = sum(workload.run(phase) for _ in range(times))
    sums = getattr(getattr(workload, "prepared_network", None), "sums", None)
    return work, [] if sums is None else sums.read_s()


def serve(workload: Workload[Any], connection: Connection) -> None:
    """Do what is asked until the other end closes; answer whether it failed, and what or why."""
    try:
        while True:
            asked = connection.recv()
            try:
                answer = asked(workload)
            except Exception as error:  # whatever a program raises is the measuring process's
                connection.send((True, f"{type(error).__name__}: {error}"))
                return
            connection.send((False, answer))
    except EOFError:
        workload.close()


def main() -> None:
    """Run the process of a rank; its end of a pipe is the file that the argument numbers."""
    connection = Connection(int(sys.argv[1]))
    kind, settings, rank, num_ranks, meeting = connection.recv()
    if meeting:
        join(rank, num_ranks, meeting)
    serve(kind(settings), connection)
    sys.stdout.flush()
    os._exit(0)  # the others of the group may have ended first, which NCCL waits for


if __name__ == "__main__":
    main()
