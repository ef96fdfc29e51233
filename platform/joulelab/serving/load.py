"""How requests come: so many at a time, or at random instants; and which answers are good."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from queue import SimpleQueue
from threading import Thread

from joulelab.errors import ConfigError, MeasurementError
from joulelab.serving.client import Answer

Ask = Callable[[int, float], Awaitable[Answer]]
"""Sends a request of a number that was due at an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Latencies that a good answer keeps, in seconds; ``None`` for any."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None

    def are_kept(self, answer: Answer) -> bool:
        """Whether an answer came, and in time."""
        if answer.failure:
            return False
        pairs = (
            (self.ttft_s, answer.ttft_s),
            (self.tpot_s, answer.tpot_s),
            (self.latency_s, answer.latency_s),
        )
        return all(limit is None or (took or 0.0) <= limit for limit, took in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a server is given to do.

    Attributes:
        num_requests: How many requests in all; ``None`` for more and more until they are over.
        concurrency: How many at a time, each followed at once by the next (a closed loop);
            ``None`` if ``rate_per_s`` says when they come.
        rate_per_s: Mean number per second of requests that come at random, whatever the server
            manages (Poisson arrivals).
        seed: Of the random instants and prompts.
    """

    num_requests: int | None = None
    concurrency: int | None = None
    rate_per_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ConfigError("A load needs either a concurrency or a rate_per_s, and not both.")
        for name in ("num_requests", "concurrency", "rate_per_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise ConfigError(f"{name} must be positive, got {value}.")

    async def run(self, ask: Ask) -> list[Answer]:
        """Send all requests; return their answers once all have come."""
        answers: list[Answer] = []
        await self.drive(ask, answers.append, asyncio.Event())
        return answers

    async def drive(
        self, ask: Ask, on_answer: Callable[[Answer], object], over: asyncio.Event
    ) -> None:
        """Send requests until ``over``, or all; ends once every one of them is answered.

        ``on_answer`` is called with each answer as it comes.
        """
        every = count() if self.num_requests is None else range(self.num_requests)
        numbers = takewhile(lambda _: not over.is_set(), every)
        if self.concurrency is None:
            await self._poisson(ask, on_answer, numbers, over)
        else:
            await self._closed(ask, on_answer, numbers)

    def due_s(self) -> Iterator[float]:
        """Yield when requests come after the first instant, for a rate; there is no last one."""
        draw = random.Random(self.seed)  # noqa: S311 - arrivals, not a secret
        due_s = 0.0
        while True:
            due_s += draw.expovariate(self.rate_per_s or 1.0)
            yield due_s

    async def _closed(
        self, ask: Ask, on_answer: Callable[[Answer], object], numbers: Iterator[int]
    ) -> None:
        async def user() -> None:
            for number in numbers:
                on_answer(await ask(number, time.monotonic()))

        async with asyncio.TaskGroup() as users:
            for _ in range(min(self.concurrency or 1, self.num_requests or 10**9)):
                users.create_task(user())

    async def _poisson(
        self,
        ask: Ask,
        on_answer: Callable[[Answer], object],
        numbers: Iterator[int],
        over: asyncio.Event,
    ) -> None:
        begin_s = time.monotonic()

        async def one(number: int, due_s: float) -> None:
            on_answer(await ask(number, due_s))

        async with asyncio.TaskGroup() as requests:
            for number, after_s in zip(numbers, self.due_s(), strict=False):
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), begin_s + after_s - time.monotonic())
                    return
                requests.create_task(one(number, begin_s + after_s))


class Traffic:
    """Sends requests in a thread of its own, from now until it is stopped."""

    def __init__(self, load: Load, ask: Ask) -> None:
        self._answers: SimpleQueue[Answer | Exception] = SimpleQueue()
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._driving = load.drive(ask, self._answers.put, self._over)
        self._task: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._go, name="joulelab-traffic", daemon=True)
        self._thread.start()

    def take(self, least: int) -> list[Answer]:
        """Return the answers that came since the last call, once they are ``least``.

        Raises MeasurementError if no more can come.
        """
        taken: list[Answer] = []
        while len(taken) < least or not self._answers.empty():
            answer = self._answers.get()
            if isinstance(answer, Exception):
                raise MeasurementError(f"The load broke off: {answer!r}") from answer
            taken.append(answer)
        return taken

    def stop(self, patience_s: float) -> None:
        """Send no more, and wait until all is answered, but no longer than ``patience_s``.

        What is open then is hung up on, which servers take for the wish to hear no more.
        """
        for end in (self._over.set, self._hang_up):
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(end)
            self._thread.join(patience_s)

    def _hang_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _go(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._drive())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self._answers.put(error)

    async def _drive(self) -> None:
        self._task = asyncio.current_task()
        await self._driving
