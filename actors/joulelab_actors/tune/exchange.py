"""Where trials of Ray Tune's ask to be measured, and the driver answers.

Nothing of Tune's is imported here: it takes a second of a core, in the exchange's process too.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Result = dict[str, Any]
"""What a trial reports to Tune: figures by name, and a reason where there are none."""

MOST_WAITING = 4096
"""Trials that can wait for their answers at once: two for each of 2,048 GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A measurement that a trial of Tune's asks for after ``iteration`` reported results.

    ``name`` is the trial and that number; a trial that is started again asks by the same name.
    """

    name: str
    config: Mapping[str, Any]
    iteration: int


class Exchange:
    """Keeps what trials ask for until the driver takes it, and answers until trials take them.

    The class is plain: :func:`start_exchange` puts it on the cluster. Answers stay, for a trial
    whose process died may ask again.
    """

    def __init__(self) -> None:
        self._asks: list[Ask] = []
        self._news = asyncio.Event()
        self._answers: dict[str, asyncio.Future[Result]] = {}

    async def measure(self, ask: Ask) -> Result:
        """Return what the driver answers, once it does."""
        if ask.name not in self._answers:
            self._asks.append(ask)
            self._news.set()
        return await asyncio.shield(self._answer_to(ask.name))

    async def asks(self) -> list[Ask]:
        """Return what was asked since the last call, once there is something; or :meth:`ring`."""
        await self._news.wait()
        self._news.clear()
        asks, self._asks = self._asks, []
        return asks

    async def answer(self, name: str, result: Result) -> None:
        """Answer what was asked by that name."""
        if not self._answer_to(name).done():
            self._answer_to(name).set_result(result)

    async def ring(self) -> None:
        """Have :meth:`asks` return, be there any or not."""
        self._news.set()

    def _answer_to(self, name: str) -> asyncio.Future[Result]:
        if name not in self._answers:
            self._answers[name] = asyncio.get_running_loop().create_future()
        return self._answers[name]


def start_exchange() -> Any:
    """Start an exchange on the driver's node; return its handle.

    Should its process or its node vanish, it starts again and Ray repeats the calls that wait:
    trials ask again, and the driver answers by the same names.
    """
    make_remote: Any = ray.remote
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": MOST_WAITING}
    options |= {"max_restarts": -1, "max_task_retries": -1}
    here = ray.get_runtime_context().get_node_id()
    options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=True)
    return make_remote(Exchange).options(**options).remote()
