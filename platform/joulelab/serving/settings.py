"""Which server, what it is asked, and how requests come; which answers are good."""

import asyncio
import json
import random
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from math import ceil
from queue import SimpleQueue
from threading import Thread
from typing import Any

from joulelab.errors import ConfigError, MeasurementError
from joulelab.serving.client import Reply
from joulelab.workloads.base import check_knobs, require_count

Ask = Callable[[int, float], Awaitable[Reply]]
"""Sends a request of a number that was due at an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Latencies that a good answer keeps, in seconds; ``None`` for any."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None

    def are_kept(self, answer: Reply) -> bool:
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
    """What a server is given to do."""

    num_requests: int | None = None  # how many in all; None for more and more until they are over
    # How many at a time, each followed at once by the next (a closed loop); None if rate_per_s says
    # when they come.
    concurrency: int | None = None
    # Mean number per second of requests that come at random, whatever the server manages (Poisson
    # arrivals).
    rate_per_s: float | None = None
    seed: int = 0  # of the random instants and prompts

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ConfigError("A load needs either a concurrency or a rate_per_s, and not both.")
        for name in ("num_requests", "concurrency", "rate_per_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise ConfigError(f"{name} must be positive, got {value}.")

    async def run(self, ask: Ask) -> list[Reply]:
        """Send all requests; return their answers once all have come."""
        answers: list[Reply] = []
        await self.drive(ask, answers.append, asyncio.Event())
        return answers

    async def drive(
        self, ask: Ask, on_answer: Callable[[Reply], object], over: asyncio.Event
    ) -> None:
        """Send requests until ``over``, or all; return once each has been answered."""
        every = count() if self.num_requests is None else range(self.num_requests)
        numbers = takewhile(lambda _: not over.is_set(), every)
        begin_s = time.monotonic()

        async def send(number: int, due_s: float) -> None:
            on_answer(await ask(number, due_s))

        async def user() -> None:
            for number in numbers:
                await send(number, time.monotonic())

        async with asyncio.TaskGroup() as tasks:
            if self.concurrency is not None:
                for _ in range(min(self.concurrency, self.num_requests or 10**9)):
                    tasks.create_task(user())
                return
            for number, after_s in zip(numbers, self.due_s(), strict=False):
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), begin_s + after_s - time.monotonic())
                    return
                tasks.create_task(send(number, begin_s + after_s))

    def due_s(self) -> Iterator[float]:
        """Yield when requests come after the first instant, for a rate; there is no last one."""
        draw = random.Random(self.seed)  # noqa: S311 - arrivals, not a secret
        due_s = 0.0
        while True:
            due_s += draw.expovariate(self.rate_per_s or 1.0)
            yield due_s


class Traffic:
    """Sends requests in a thread of its own, from now until it is stopped."""

    def __init__(self, load: Load, ask: Ask) -> None:
        self._answers: SimpleQueue[Reply | Exception] = SimpleQueue()
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._driving = load.drive(ask, self._answers.put, self._over)
        self._task: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._go, name="joulelab-traffic", daemon=True)
        self._thread.start()

    def take(self, least: int) -> list[Reply]:
        """Return the answers since the last call, once ``least``; MeasurementError if none come."""
        taken: list[Reply] = []
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


_CONCURRENCY = 8
CHAT = "/v1/chat/completions"
_WORDS = """
    time person year way day thing man world life hand part child eye woman place work week case
    point government company number group problem fact
""".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Drive a language model's server that speaks OpenAI's protocol.

    Attributes:
        command: The server's command line, as a shell takes it; {port} stands for a free port.
            Empty for a server that runs already.
        url: Its address; by default port 8000 of this machine, or the one that {port} stands for.
        pid: A process of the server that runs already; its descendants belong to it.
        model: Which model to ask; by default the first that the server tells of.
        path: Where to ask: chat completions, or /v1/completions.
        key_variable: Environment variable that holds the key that the server wants, such as
            OPENAI_API_KEY; the key itself is stored nowhere.
        concurrency: How many requests at a time, in a closed loop; 8 unless a rate is given.
        rate_per_s: Poisson arrivals at this mean rate instead.
        requests: bench-server: how many count, 100 by default. Workload: how many answers end a
            repeat; by default one of each at a time, or those of a second.
        input_words: Words of each prompt.
        output_tokens: Tokens of each answer, at most.
        extra_body: JSON object that is added to each request; vLLM and SGLang answer in full
            length with '{"ignore_eos": true}'.
        load_seed: Of prompts and arrivals.
        warmup: Requests beforehand, which do not count.
        ttft_limit_s: Longest time to the first token of an answer that counts as good.
        tpot_limit_s: Longest time per output token, likewise.
        latency_limit_s: Longest time to the end, likewise.
        ready_timeout_s: How long the server may take to start; one that runs must answer at once.
        timeout_s: How long an answer may take.
    """

    command: str = ""
    url: str | None = None
    pid: int | None = None
    model: str | None = None
    path: str = CHAT
    key_variable: str | None = None
    concurrency: int | None = None
    rate_per_s: float | None = None
    requests: int | None = None
    input_words: int = 128
    output_tokens: int = 128
    extra_body: str = "{}"
    load_seed: int = 0
    warmup: int = 3
    ttft_limit_s: float | None = None
    tpot_limit_s: float | None = None
    latency_limit_s: float | None = None
    ready_timeout_s: float = 600.0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name in ("load_seed", "warmup"):
            require_count(name, getattr(self, name), least=0)
        check_knobs(self, but=("load_seed", "warmup"))
        self.load()
        self._extra()
        _ = self.words

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command line."""
        try:
            return tuple(shlex.split(self.command))
        except (AttributeError, ValueError) as error:
            raise ConfigError(
                f"command must be words as a shell takes them, got {self.command!r}: {error}."
            ) from error

    def load(self, num_requests: int | None = None) -> Load:
        """Return how requests come: so many, or without an end."""
        concurrency = self.concurrency
        if concurrency is None and self.rate_per_s is None:
            concurrency = _CONCURRENCY
        return Load(
            num_requests=num_requests,
            concurrency=concurrency,
            rate_per_s=self.rate_per_s,
            seed=self.load_seed,
        )

    @property
    def answers_per_repeat(self) -> int:
        """How many answers the workload waits for at a time."""
        load = self.load()
        return self.requests or load.concurrency or ceil(load.rate_per_s or 1.0)

    @property
    def limits(self) -> LatencyLimits:
        """Latencies that a good answer keeps."""
        return LatencyLimits(
            ttft_s=self.ttft_limit_s, tpot_s=self.tpot_limit_s, latency_s=self.latency_limit_s
        )

    def body(self, model: str, number: int) -> dict[str, Any]:
        """Return the body of one request to ``model``; each number has another prompt."""
        draw = random.Random(f"{self.load_seed} {number}")  # noqa: S311 - prompts, not a secret
        prompt = " ".join(draw.choices(_WORDS, k=self.input_words))
        is_chat = self.path.rstrip("/").endswith("chat/completions")
        asked = {"messages": [{"role": "user", "content": prompt}]} if is_chat else {}
        return {
            "model": model,
            **(asked or {"prompt": prompt}),
            "max_tokens": self.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._extra(),
        }

    def _extra(self) -> dict[str, Any]:
        try:
            extra = json.loads(self.extra_body)
        except (TypeError, json.JSONDecodeError) as error:
            raise ConfigError(f"extra_body must be a JSON object: {error}.") from error
        if not isinstance(extra, dict):
            raise ConfigError(f"extra_body must be a JSON object, got {self.extra_body}.")
        return extra
