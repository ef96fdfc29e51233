"""Work that a server counts, read over HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from joulelab.errors import ConfigError, MeasurementError
from joulelab.governor.progress import ServerProgress, server_progress
from joulelab.governor.strategy import Rules


class Counted(BaseHTTPRequestHandler):
    """A server that has generated a hundred tokens more whenever it is asked."""

    tokens = 0

    def do_GET(self):
        Counted.tokens += 100
        self.send_response(200)
        self.end_headers()
        self.wfile.write(
            b"# TYPE tokens_total counter\n"
            + f'tokens_total{{model="a"}} {Counted.tokens}.0\n'.encode()
            + f'tokens_total{{model="b"}} {Counted.tokens}.0\ntokens_total_x 7\n'.encode()
            + f"wait_seconds_sum {0.03 * Counted.tokens}\n".encode()
            + f"wait_seconds_count {Counted.tokens}\n".encode()
        )

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


class Listener:
    def __init__(self):
        self.reported = []
        self.latencies_s = []

    def progress(self, num):
        self.reported.append(num)

    def latency(self, latency_s):
        self.latencies_s.append(latency_s)


def test_what_is_counted_between_two_reads_is_reported(url):
    server, governor = ServerProgress(url, "tokens_total"), Listener()

    for _ in range(3):
        server._report(governor)

    assert governor.reported == [200.0, 200.0]


def test_the_mean_latency_between_two_reads_is_reported_where_it_is_asked_for(url):
    server, governor = ServerProgress(url, "tokens_total", "wait_seconds"), Listener()

    for _ in range(3):
        server._report(governor)

    assert governor.latencies_s == pytest.approx([0.03, 0.03])
    assert governor.reported == [200.0, 200.0]


def test_a_limit_of_latencies_that_nobody_reads_is_refused():
    limited = Rules(latency_limit_s=0.05)

    with pytest.raises(ConfigError, match="--progress-url"):
        server_progress(None, "tokens_total", "wait_seconds", limited)
    assert server_progress(None, "tokens_total", "wait_seconds", Rules()) is None


def test_a_counter_that_is_not_there_is_named(url):
    with pytest.raises(MeasurementError, match="must have the counter words_total"):
        ServerProgress(url, "words_total").read()


def test_a_server_that_is_not_up_yet_is_waited_for():
    server, governor = ServerProgress("http://127.0.0.1:9/metrics", "tokens_total"), Listener()

    server._report(governor)

    assert governor.reported == []
    assert "refused" in server.failure


def test_what_is_no_address_of_a_server_is_refused():
    with pytest.raises(ConfigError, match="--progress-url"):
        ServerProgress("localhost:8000", "tokens_total")
