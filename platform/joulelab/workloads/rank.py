"""One process of a program that runs on several GPUs; it does what the measuring one says."""

import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from joulelab.workloads.base import Workload


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


def serve(workload: Workload[Any], connection: Connection) -> None:
    """Do what is asked until the other end closes; answer with the work, or what went wrong."""
    try:
        while True:
            phase, times = connection.recv()
            try:
                if phase is None:
                    workload.prepare()
                work = sum(workload.run(phase) for _ in range(times)) if phase else 0.0
            except Exception as error:  # whatever a program raises is the measuring process's
                connection.send(f"{type(error).__name__}: {error}")
                return
            connection.send(work)
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
