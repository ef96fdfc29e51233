"""The trial that Ray Tune runs: a lease on a GPU of the pool, in a process without any."""

import asyncio
from typing import Any

import ray
from ray import tune
from typing_extensions import override

from joulelab_actors.search.leases import Results

TRIAL = "trial"
"""Key of a Tune configuration under which the pool's trial is named."""


class NoticeBoard:
    """Where the driver posts results, and where trial processes wait for theirs.

    The class is plain: :func:`start_board` puts it on the cluster.
    """

    def __init__(self) -> None:
        self._results: Results = {}
        self._number = 0
        self._news = asyncio.Event()

    async def post(self, number: int, results: Results) -> None:
        """Replace what is posted, so that nothing stays for longer than it is needed.

        Ray may deliver posts out of their order: an older one comes too late.
        """
        if number < self._number:
            return
        self._number, self._results = number, results
        self._news.set()
        self._news = asyncio.Event()

    async def result(self, trial: str) -> dict[str, Any]:
        """Wait for the result of ``trial``."""
        while trial not in self._results:
            await self._news.wait()
        return dict(self._results[trial])


class LeasedTrial(tune.Trainable):
    """Waits while one of the pool's GPUs measures, and reports what came of it.

    It measures nothing and needs no CPU worth counting. A GPU goes on measuring whatever becomes
    of this process; one that takes its place finds the result.
    """

    @override
    def setup(self, config: dict[str, Any], board: Any = None) -> None:
        self._board = board
        self._name: str = config[TRIAL]

    @override
    def step(self) -> dict[str, Any]:
        result: dict[str, Any] = ray.get(self._board.result.remote(self._name))
        return result | {tune.result.DONE: True}

    @override
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._name = new_config[TRIAL]
        return True


def start_board() -> Any:
    """Start a notice board on the cluster; it ends with its handle or its driver."""
    remote: Any = ray.remote(NoticeBoard)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 1000}
    return remote.options(**options).remote()
