"""A server under load, as a workload: its output tokens are the work."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from joulelab.core.cost import Request
from joulelab.core.energy import EnergyWindow
from joulelab.errors import ConfigError, MeasurementError
from joulelab.serving.bench import Served
from joulelab.serving.client import Reply
from joulelab.serving.deployment import Deployment
from joulelab.serving.settings import ServerSettings, Traffic
from joulelab.workloads.base import Workload, require_choice

Result = TypeVar("Result")
_ANSWERED_S = 60.0
"""How long the last requests of a phase are waited for before they are hung up on."""


class Server(Workload[ServerSettings]):
    """Drives a server of a language model; what it runs is the load's steady state.

    Requests go on from the first repeat to the end of the phase, whoever waits for them: a repeat
    ends with the next so many answers, and the server is as full at its begin as at its end. Sent
    for each repeat and waited for, they would leave the server ever emptier before its end, and a
    token would cost more the shorter the repeats are. What was in flight at the begin of a window
    counts in it, and what is at its end does not; both are as much in the mean, and the rest is
    scatter between windows, which the uncertainty has.

    A failed request ends the measurement.
    """

    settings_type: ClassVar = ServerSettings
    unit: ClassVar = "output token"
    phases = ("serve",)

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._deployment: Deployment | None = None
        self._model: str | None = None
        self._traffic: Traffic | None = None
        self._repeats: list[tuple[float, list[Reply]]] = []

    @property
    @override
    def request(self) -> Request | None:
        """As many answers as are asked for side by side; none where they are asked for at a rate.

        With so many always in flight a request takes as long as so many answers do (Little's law).
        """
        concurrency = self.settings.load().concurrency
        if concurrency is None:
            return None
        tokens = float(concurrency * self.settings.output_tokens)
        return Request(units={"serve": tokens}, size=tokens)

    @property
    @override
    def processes(self) -> tuple[int, ...]:
        return () if self._deployment is None else (self._deployment.pid,)

    @override
    def take_over(self, other: Workload[Any]) -> None:
        if isinstance(other, Server):
            self._deployment = other.given_up(self.settings)

    def given_up(self, settings: ServerSettings) -> Deployment | None:
        """Let go of the server without ending it, if ``settings`` mean it as well."""
        deployment = self._deployment
        if deployment is None or not deployment.is_for(settings):
            return None
        self.rest()
        self._deployment = None
        return deployment

    @override
    def prepare(self) -> None:
        """Start the server, wait until it answers, and warm it up."""
        pinned = {} if self.gpu_uuid is None else {"CUDA_VISIBLE_DEVICES": self.gpu_uuid}
        self._deployment = self._deployment or Deployment(self.settings, pinned)
        try:
            self._model = _result(self._ready(self._deployment))
        except BaseException:
            self.close()
            raise

    @override
    def run(self, phase: str) -> float:
        require_choice("phase", phase, self.phases)
        if self._deployment is None or self._model is None:
            raise ConfigError("A server must be prepared before it runs.")
        if self._traffic is None:
            asked = partial(self._deployment.ask, self.settings, self._model)
            self._traffic = Traffic(self.settings.load(), lambda _, due_s: asked(due_s))
        answers = self._traffic.take(self.settings.answers_per_repeat)
        self._deployment.require_running()
        self._repeats.append((time.monotonic(), answers))
        return float(_tokens(answers))

    @override
    def rest(self) -> None:
        traffic, self._traffic = self._traffic, None
        if traffic is not None:
            traffic.stop(_ANSWERED_S)
        self._repeats.clear()

    @override
    def figures(self, windows: Sequence[EnergyWindow]) -> Mapping[str, float]:
        """Return latencies, rates, goodput, and energy per request, of what the windows hold."""
        answers = [
            answer
            for at_s, came in self._repeats
            for answer in came
            if any(w.start_s < at_s <= w.start_s + w.duration_s for w in windows)
        ]
        served = Served.of(
            answers, self.settings.limits, duration_s=sum(w.duration_s for w in windows)
        )
        return served.metrics | {
            "energy_per_request_j": sum(w.energy_j for w in windows) / served.num_requests,
            "output_tokens_per_request": served.output_tokens / served.num_requests,
        }

    @override
    def close(self) -> None:
        traffic, self._traffic = self._traffic, None
        deployment, self._deployment = self._deployment, None
        if traffic is not None:
            traffic.stop(0.0)
        if deployment is not None:
            deployment.close()
        self._repeats.clear()

    async def _ready(self, deployment: Deployment) -> str:
        await deployment.ready()
        return await deployment.warmed_up(self.settings)


def _tokens(answers: Sequence[Reply]) -> int:
    """Return how many tokens answers have; MeasurementError if that is not known."""
    why = Counter(answer.failure for answer in answers if answer.failure)
    if why:
        failures = "; ".join(f"{times} x {failure}" for failure, times in why.most_common(3))
        raise MeasurementError(f"Every request must be answered, but of {len(answers)}: {failures}")
    if not all(answer.is_counted for answer in answers):
        raise MeasurementError(
            "The server must tell how many tokens it puts out (usage), and does not; "
            "`joulelab bench-server` measures energy per request all the same."
        )
    return sum(answer.output_tokens or 0 for answer in answers)


def _result(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run ``coroutine``, also where this thread has an event loop, as that of a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
