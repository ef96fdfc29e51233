"""Streamed answers of an OpenAI-compatible server, timed; over the standard library's sockets."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from joulelab.errors import ConfigError, MeasurementError

_LONGEST_LINE_B = 2**24
_DONE = "[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning")
"""Where pieces of an answer hold text; vLLM has renamed the second to the third."""
HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A request and what came of it; instants are of the machine's monotonic clock, in seconds."""

    due_s: float  # when the request was due; latencies count from here
    first_s: float | None = None  # when the first piece of text came; None if none did
    last_s: float | None = None  # when the last one came
    stop_s: float
    output_tokens: int | None = None  # how many tokens it had; None if it failed
    is_counted: bool = False  # whether the server stated that number; else it is that of pieces
    failure: str = ""  # why it failed; empty if it did not

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token."""
        return None if self.first_s is None else self.first_s - self.due_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; ``None`` with fewer than two."""
        if self.first_s is None or self.last_s is None or (self.output_tokens or 0) < 2:
            return None
        return (self.last_s - self.first_s) / ((self.output_tokens or 0) - 1)

    @property
    def latency_s(self) -> float:
        """Time to the end of the answer."""
        return self.stop_s - self.due_s


class _Place(NamedTuple):
    """Where a server is, and what it is to be shown."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    key: str | None


class Client:
    """Asks one server, at an address such as ``http://127.0.0.1:8000``, without a path.

    An answer may take ``timeout_s`` in all; ``key`` is sent as a bearer token. Raises ConfigError
    if the address is none.
    """

    def __init__(self, url: str, *, timeout_s: float = 600.0, key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ConfigError(
                "The address of a server must be like http://127.0.0.1:8000, without a path, got "
                f"{url!r}."
            )
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        self._place = _Place(host=parts.hostname, port=port, tls=tls, key=key)
        self._timeout_s = timeout_s
        self.address = parts.hostname, port

    def without_key(self, text: str) -> str:
        """Return what a server said, without the key should it repeat that."""
        return text.replace(self._place.key, HIDDEN) if self._place.key else text

    async def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a page; OSError if the server does not answer."""
        async with asyncio.timeout(self._timeout_s):
            async with _Exchange(self._place, "GET", path, None) as exchange:
                return exchange.status, b"".join([line async for line in exchange.lines()])

    async def ask(self, path: str, body: Mapping[str, Any], due_s: float) -> Reply:
        """Send one request and time its streamed answer; a failure is an answer, too."""
        first_s = last_s = None
        pieces, num_tokens = 0, None
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                _Exchange(self._place, "POST", path, body) as exchange,
            ):
                await exchange.require_ok()
                async for event in _events(exchange.lines()):
                    if _has_text(event):
                        last_s = time.monotonic()
                        first_s = first_s or last_s
                        pieces += 1
                    counted = (event.get("usage") or {}).get("completion_tokens")
                    num_tokens = num_tokens if counted is None else int(counted)
        except (OSError, EOFError, ValueError, MeasurementError, TimeoutError) as error:
            return Reply(due_s=due_s, stop_s=time.monotonic(), failure=self._why(error))
        stop_s = time.monotonic()
        if not pieces:
            return Reply(due_s=due_s, stop_s=stop_s, failure="The answer held no text.")
        return Reply(
            due_s=due_s,
            first_s=first_s,
            last_s=last_s,
            stop_s=stop_s,
            output_tokens=pieces if num_tokens is None else num_tokens,
            is_counted=num_tokens is not None,
        )

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError) and not str(error):
            return f"No whole answer came within {self._timeout_s:g} s (--timeout-s)."
        return self.without_key(str(error) or type(error).__name__)


class _Exchange:
    """One request over a connection of its own, and the lines of its answer."""

    def __init__(
        self, place: _Place, method: str, path: str, body: Mapping[str, Any] | None
    ) -> None:
        self._place = place
        self._method, self._path = method, path
        self._body = b"" if body is None else json.dumps(body).encode()
        self._chunked = False
        self.status = 0

    async def __aenter__(self) -> "_Exchange":
        host, port, tls, bearer = self._place
        self._reader, self._writer = await asyncio.open_connection(
            host, port, ssl=tls, limit=_LONGEST_LINE_B
        )
        try:
            await self._send(host, port, bearer)
        except BaseException:
            self._writer.close()
            raise
        return self

    async def _send(self, host: str, port: int, bearer: str | None) -> None:
        key = "" if bearer is None else f"Authorization: Bearer {bearer}\r\n"
        head = (
            f"{self._method} {self._path} HTTP/1.1\r\nHost: {host}:{port}\r\n{key}"
            "Accept: */*\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(self._body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + self._body)
        await self._writer.drain()
        status, *headers = (
            (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        )
        self.status = int(status.split()[1])
        self._chunked = any(
            header.lower().replace(" ", "") == "transfer-encoding:chunked" for header in headers
        )

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def require_ok(self) -> None:
        """Raise :class:`MeasurementError` with what the server says, unless its status is 200."""
        if self.status != 200:
            text = b"".join([line async for line in self.lines()])
            raise MeasurementError(f"HTTP {self.status}: {text[:300].decode(errors='replace')}")

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the body as they come, with their ends."""
        rest = b""
        async for part in self._parts():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest

    async def _parts(self) -> AsyncIterator[bytes]:
        if not self._chunked:
            while part := await self._reader.read(65536):
                yield part
            return
        while length := int((await self._reader.readline()).split(b";")[0] or b"0", 16):
            yield (await self._reader.readexactly(length + 2))[:-2]


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield events; EOFError if the stream breaks off, MeasurementError if one is an error."""
    finished = False
    async for line in lines:
        name, _, text = line.decode().strip().partition(":")
        if name != "data" or not text.strip():
            continue
        if text.strip() == _DONE:
            return
        event = json.loads(text)
        if not isinstance(event, dict) or event.get("error"):
            raise MeasurementError(f"The server says: {text.strip()[:300]}")
        finished |= any(choice.get("finish_reason") for choice in event.get("choices") or ())
        yield event
    if not finished:
        raise EOFError("The answer broke off.")


def _has_text(event: Mapping[str, Any]) -> bool:
    choices = event.get("choices") or ()
    deltas = [choice.get("delta") or {} for choice in choices]
    return any(choice.get("text") for choice in choices) or any(
        delta.get(name) for delta in deltas for name in _TEXTS
    )
