"""Latencies, goodput and arrivals against closed forms."""

import asyncio
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from joulelab.errors import ConfigError
from joulelab.serving.bench import Served
from joulelab.serving.client import Reply
from joulelab.serving.settings import LatencyLimits, Load


def answer(number, *, tokens=11):
    """Answer number n comes n ms after it was due, and then a token every n / 10 ms."""
    due_s, delay_s = float(number), 1e-3 * number
    return Reply(
        due_s=due_s,
        first_s=due_s + delay_s,
        last_s=due_s + 2 * delay_s,
        stop_s=due_s + 2 * delay_s,
        output_tokens=tokens,
        is_counted=True,
    )


ANSWERS = [answer(number) for number in range(1, 101)]
FAILED = Reply(due_s=50.0, stop_s=51.0, failure="HTTP 503")


def test_percentiles_are_those_of_the_delays():
    served = Served.of(ANSWERS, LatencyLimits(), 200.0)

    assert served.ttft_s.mean_s == pytest.approx(0.0505)
    assert served.ttft_s.p50_s == pytest.approx(0.0505)
    assert served.ttft_s.p90_s == pytest.approx(0.0901)
    assert served.ttft_s.p99_s == pytest.approx(0.09901)
    assert served.tpot_s.p50_s == pytest.approx(0.00505)
    assert served.latency_s.p50_s == pytest.approx(0.101)
    assert served.output_tokens == 1100


def test_goodput_counts_answers_that_keep_every_limit():
    by_first = Served.of(ANSWERS, LatencyLimits(ttft_s=0.0405), 200.0)
    by_both = Served.of(ANSWERS, LatencyLimits(ttft_s=0.0405, tpot_s=0.00305), 200.0)

    assert by_first.good_per_s * 200 == pytest.approx(40)
    assert by_both.good_per_s * 200 == pytest.approx(30)


def test_failures_are_counted_by_reason_and_are_in_no_latency():
    served = Served.of([*ANSWERS, FAILED, FAILED], LatencyLimits(), 200.0)

    assert served.num_failed == 2
    assert served.failures == ("2 x HTTP 503",)
    assert served.latency_s == Served.of(ANSWERS, LatencyLimits(), 200.0).latency_s
    assert served.good_per_s == Served.of(ANSWERS, LatencyLimits(), 200.0).good_per_s


def test_where_nothing_came_there_is_no_latency():
    served = Served.of([FAILED], LatencyLimits(), 200.0)

    assert (served.ttft_s, served.tpot_s, served.latency_s) == (None, None, None)
    assert served.output_tokens == 0


def test_one_token_tells_no_time_per_token():
    assert answer(5, tokens=1).tpot_s is None


def due(load):
    return list(islice(load.due_s(), load.num_requests))


def test_arrivals_are_a_poisson_process_of_the_rate_and_the_seed():
    load = Load(num_requests=10_000, rate_per_s=20.0, seed=3)

    due_s = due(load)
    gaps_s = [b - a for a, b in pairwise([0.0, *due_s])]
    mean_s = sum(gaps_s) / len(gaps_s)
    variance_s2 = sum((gap - mean_s) ** 2 for gap in gaps_s) / len(gaps_s)

    assert mean_s == pytest.approx(1 / 20, rel=0.05)
    assert variance_s2 == pytest.approx(mean_s**2, rel=0.1)
    assert due_s == due(replace(load))
    assert due_s != due(replace(load, seed=4))


def test_a_closed_loop_keeps_so_many_requests_in_flight_and_sends_each_once():
    in_flight, most, numbers = 0, 0, []

    async def ask(number, due_s):
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        numbers.append(number)
        await asyncio.sleep(0.001)
        in_flight -= 1
        return replace(FAILED, due_s=due_s)

    answers = asyncio.run(Load(num_requests=20, concurrency=3).run(ask))

    assert most == 3
    assert sorted(numbers) == list(range(20))
    assert len(answers) == 20


def test_a_late_request_counts_from_when_it_was_due():
    async def ask(_number, due_s):
        return replace(FAILED, due_s=due_s)

    load = Load(num_requests=5, rate_per_s=1000.0)
    answers = asyncio.run(load.run(ask))

    begin_s = answers[0].due_s - due(load)[0]
    assert [a.due_s - begin_s for a in answers] == pytest.approx(due(load), abs=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"concurrency": 2, "rate_per_s": 1.0},
        {"concurrency": 0},
        {"rate_per_s": -1.0},
        {"rate_per_s": float("nan")},
    ],
)
def test_a_load_that_makes_no_sense_is_refused(settings):
    with pytest.raises(ConfigError):
        Load(num_requests=10, **settings)
