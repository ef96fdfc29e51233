"""Which server, what it is asked, and how much at a time."""

import json
import random
import shlex
from dataclasses import dataclass
from math import ceil
from typing import Any

from joulelab.errors import ConfigError
from joulelab.serving.load import Limits, Load
from joulelab.workloads.knobs import check_knobs, require_count

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
    def limits(self) -> Limits:
        """Latencies that a good answer keeps."""
        return Limits(
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
