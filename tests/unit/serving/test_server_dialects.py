"""Servers answer as their documentation says, where they differ: vLLM, SGLang and llama.cpp."""

import asyncio
import json
import os
import time
from contextlib import asynccontextmanager

import pytest

from joulelab.errors import MeasurementError
from joulelab.serving import deployment
from joulelab.serving.client import Client
from joulelab.serving.deployment import Deployment
from joulelab.serving.settings import ServerSettings

MODELS = json.dumps({"data": [{"id": "model"}]})
LOADING = json.dumps(
    {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
)


@asynccontextmanager
async def serving(pages):
    """A server whose pages are functions that return status and body; yields its address."""

    async def answer(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        page = pages.get(head.split()[1], lambda: (404, "{}"))
        status, body = page()
        writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def readiness(pages):
    """How long a server that runs already takes to be ready."""

    async def wait():
        async with serving(pages) as url:
            return await Deployment(ServerSettings(url=url, pid=os.getpid())).ready()

    return asyncio.run(wait())


def asked(*events, ends=("[DONE]",)):
    """What becomes of an answer that is streamed as these events."""
    lines = [json.dumps(event) for event in events]
    body = "".join(f"data: {line}\n\n" for line in [*lines, *ends])

    async def ask():
        async with serving({"/v1/chat/completions": lambda: (200, body)}) as url:
            return await Client(url).ask("/v1/chat/completions", {}, time.monotonic())

    return asyncio.run(ask())


def delta(**content):
    return {"choices": [{"index": 0, "delta": content, "finish_reason": None}], "usage": None}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}


def test_llama_cpp_is_waited_for_while_it_loads_though_it_lists_its_model():
    """It was taken to be ready, and refused the warm-up with status 503."""
    answers = [(200, "{}"), (503, LOADING), (503, LOADING)]

    readiness({"/health": answers.pop, "/v1/models": lambda: (200, MODELS)})

    assert answers == []


def test_a_server_that_stays_unready_is_told_so(monkeypatch):
    monkeypatch.setattr(deployment, "RUNNING_S", 0.5)

    with pytest.raises(MeasurementError, match="ready within"):
        readiness({"/health": lambda: (503, LOADING), "/v1/models": lambda: (200, MODELS)})


@pytest.mark.parametrize("missing", [404, 405, 501])
def test_a_server_without_a_page_of_its_health_is_ready_when_it_lists_models(missing):
    once = [(missing, "{}")]

    readiness({"/health": once.pop, "/v1/models": lambda: (200, MODELS)})

    assert once == []


def test_vllm_answers_its_health_without_a_body():
    once = [(200, "")]

    readiness({"/health": once.pop})

    assert once == []


@pytest.mark.parametrize(
    "first",
    [
        delta(role="assistant", content=""),  # vLLM, SGLang
        delta(role="assistant", content=None),  # llama.cpp
    ],
)
def test_a_first_piece_without_text_is_no_token_and_usage_comes_in_a_piece_of_its_own(first):
    answer = asked(first, delta(content="a"), delta(content="b"), END, USAGE)

    assert answer.output_tokens == 5
    assert answer.is_counted
    assert not answer.failure


def test_tokens_are_pieces_where_a_server_leaves_usage_out():
    answer = asked(delta(role="assistant", content=None), delta(content="a"), delta(content="b"))

    assert (answer.output_tokens, answer.is_counted) == (2, False)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_what_a_model_thinks_is_text_under_the_old_name_and_under_vllms_new_one(name):
    """Else time to the first token counted to the end of the thoughts."""
    answer = asked(delta(**{name: "hm"}), delta(content=None), END, USAGE)

    assert answer.first_s is not None
    assert not answer.failure


def test_a_stream_that_ends_without_done_is_whole_if_it_gave_a_reason_to_finish():
    assert not asked(delta(content="a"), END, ends=()).failure
    assert asked(delta(content="a"), ends=()).failure == "The answer broke off."


def test_an_error_within_a_stream_is_a_failure_with_its_words():
    answer = asked(delta(content="a"), {"error": {"code": 500, "message": "out of memory"}})

    assert "out of memory" in answer.failure


def test_an_answer_that_takes_too_long_is_a_failure_that_names_the_limit():
    """The only word on it was TimeoutError."""

    async def ask():
        has_ended = asyncio.Event()

        async def say_nothing(reader, writer):
            await reader.read()
            writer.close()
            await writer.wait_closed()
            has_ended.set()

        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = Client(f"http://127.0.0.1:{port}", timeout_s=0.05)
            reply = await client.ask("/v1/chat/completions", {}, time.monotonic())
            await has_ended.wait()
        return reply

    assert asyncio.run(ask()).failure == "No whole answer came within 0.05 s (--timeout-s)."
