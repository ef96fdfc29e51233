"""`joulelab bench-server` on a server whose delays are known, on simulated GPUs in real time."""

import asyncio
import io
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
import streaming_server
from fake_gpu import FOREIGN_PID
from guard_fakes import end_guard
from waiting import PATIENCE_S, until

import joulelab
from joulelab.cli.main import main
from joulelab.devices.simulated import fleet
from joulelab.devices.simulated.faults import Fault
from joulelab.serving import deployment
from joulelab.serving.client import Client
from joulelab.serving.deployment import free_port
from joulelab.serving.settings import CHAT

SOURCE = str(Path(joulelab.__file__).parents[1])
GPU = "SIM-h200_sxm-0"
FIRST_S, NEXT_S, TOKENS = 0.1, 0.02, 10


def in_this_process(words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


class Lab:
    def __init__(self, folder):
        self.store = folder / "gpus"
        self.result_path = folder / "result.json"
        fleet("h200_sxm", 1, str(self.store))
        self.port = free_port()
        line = Fault(kind="foreign_process", pid=FOREIGN_PID, power_w=200.0).line
        self.server = [sys.executable, streaming_server.__file__, str(self.port)]
        self.server += [str(self.store / GPU / "faults"), line.replace(str(FOREIGN_PID), "PID")]

    def bench(self, *options, server=(), extra=None, scheme="http", **environment):
        """Run the command: in a process of its own where what it drives is no child of its own."""
        asked = {"first_s": FIRST_S, "next_s": NEXT_S} | (extra or {})
        words = ["bench-server", "--url", f"{scheme}://127.0.0.1:{self.port}"]
        words += ["--json", str(self.result_path), "--device", "simulated"]
        words += ["--store", str(self.store), "--output-tokens", str(TOKENS)]
        words += ["--extra-body", json.dumps(asked), *options]
        if server:
            with patch.dict(os.environ, environment):
                return in_this_process([*words, "--", *server])
        return subprocess.run(
            [sys.executable, "-m", "joulelab.cli.main", *words],
            env={**os.environ, "PYTHONPATH": SOURCE, **environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def refused(self, *options):
        """What a command that is refused says."""
        words = ["bench-server", "--url", f"http://127.0.0.1:{self.port}"]
        words += ["--device", "simulated", "--store", str(self.store)]
        done = in_this_process([*words, *options])
        assert done.returncode == 2
        return done.stderr

    @property
    def result(self):
        return json.loads(self.result_path.read_text())


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def test_a_server_is_started_driven_and_ended_and_its_latencies_are_the_delays(lab):
    done = lab.bench("--requests", "24", "--concurrency", "4", server=lab.server)

    assert done.returncode == 0, done.stderr
    found, served = lab.result["metrics"], lab.result["served"]
    assert served["num_failed"] == 0
    stream_s, num_steps = (TOKENS - 1) * NEXT_S, 2 * TOKENS - 1  # it tells two tokens a piece
    assert found["latency_p50_s"] >= FIRST_S + stream_s
    # Where the machine is busy, a first piece may be read late.
    assert FIRST_S <= found["ttft_p50_s"] <= found["latency_p50_s"] - stream_s / 2
    assert stream_s / 2 <= num_steps * found["tpot_p50_s"] <= found["latency_p50_s"] - FIRST_S
    assert served["output_tokens"] == 24 * 2 * TOKENS
    assert found["energy_per_request_j"] == pytest.approx(found["energy_j"] / 24)
    assert found["energy_per_output_token_j"] == pytest.approx(found["energy_j"] / 480)
    assert 250 * found["duration_s"] < found["energy_j"] < 450 * found["duration_s"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", lab.port))


def test_a_server_that_runs_already_is_measured_by_its_pid_and_not_foreign(lab):
    with subprocess.Popen(lab.server) as server:
        done = lab.bench("--pid", str(server.pid), "--requests", "40", "--rate-per-s", "20")
        still_runs = server.poll() is None
        server.kill()

    assert done.returncode == 0, done.stderr
    assert still_runs
    (gpu,) = lab.result["gpus"]
    assert gpu["seen"]
    assert gpu["findings"] == []
    assert lab.result["metrics"]["energy_j"] > 0


def test_rates_are_over_the_time_that_the_energy_is_of(lab):
    """Requests at random first wait for one to be due. The energy held that wait and the duration
    did not, so that the power of a load was more than the GPU drew, and 8 requests at 4/s were
    more in a second than they are."""
    done = lab.bench("--requests", "8", "--rate-per-s", "4", server=lab.server)

    assert done.returncode == 0, done.stderr
    (gpu,), found = lab.result["gpus"], lab.result["metrics"]
    assert found["duration_s"] == pytest.approx(gpu["duration_s"], abs=0.15)  # the wait: 0.46 s
    assert found["requests_per_s"] == pytest.approx(8 / found["duration_s"])


def test_no_more_requests_are_said_to_be_in_flight_than_there_are(lab):
    """One request was told as "1 requests, 8 requests at a time"."""
    done = lab.bench("--requests", "1", server=lab.server)

    assert ": 1 request, 1 request at a time" in done.stderr
    assert "Of 1 answer p99 is little else than the longest" in done.stderr


def test_the_process_of_another_than_the_server_is_foreign(lab):
    with subprocess.Popen(lab.server) as server, subprocess.Popen(["sleep", "50"]) as other:
        lab.bench("--pid", str(other.pid), "--requests", "64", "--uuid", GPU)
        server.kill()
        other.kill()

    assert "energy_j" not in lab.result["metrics"]
    assert "foreign_process" in lab.result["reason"]


def test_a_server_that_was_not_seen_on_the_gpu_that_was_named_is_told(lab):
    """The energy of a GPU that the server may not use was told as its own, without a word.

    Nor was it said that the sensor's own error comes on top, as it is of any other program.
    """
    done = lab.bench("--requests", "8", "--uuid", GPU, server=lab.server[:3])

    assert done.returncode == 0, done.stderr
    assert f"{GPU} was named, but the server was not seen on it." in done.stderr
    assert "±5% between boards" in done.stderr


def test_pieces_are_not_taken_for_tokens_where_the_server_does_not_count(lab):
    lab.bench("--requests", "32", server=lab.server, extra={"tell_usage": False})

    assert lab.result["served"]["output_tokens"] == 32 * TOKENS
    assert "energy_per_output_token_j" not in lab.result["metrics"]
    assert "energy_per_output_piece_j" in lab.result["metrics"]


@pytest.mark.parametrize(
    ("extra", "said"),
    [({"refuse": True}, "HTTP 503: too much is asked"), ({"break_after": 3}, "broke off")],
)
def test_answers_that_fail_are_told_with_their_reason(lab, extra, said):
    done = lab.bench("--requests", "3", "--warmup", "0", server=lab.server, extra=extra)

    assert done.returncode == 1
    (failure,) = lab.result["served"]["failures"]
    assert failure.startswith("3 x ")
    assert said in failure
    assert "ttft_p50_s" not in lab.result["metrics"]
    assert "energy_per_request_j" not in lab.result["metrics"]


def test_a_server_that_does_not_start_is_told_with_its_last_words(lab):
    done = lab.bench(server=("sh", "-c", "echo no weights here; exit 3"))

    assert done.returncode == 2
    assert "exit code 3" in done.stderr
    assert "no weights here" in done.stderr


def is_gone(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("killed_by", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_does_not_outlive_the_measurement(lab, killed_by):
    command = [sys.executable, "-m", "joulelab.cli.main", "bench-server", "--device", "simulated"]
    command += ["--store", str(lab.store), "--url", f"http://127.0.0.1:{lab.port}"]
    with subprocess.Popen(
        [*command, "--requests", "100000", "--", *lab.server],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        running.stderr.readline()  # it is ready
        time.sleep(0.2)
        running.send_signal(killed_by)

    assert running.returncode == -killed_by
    until(lambda: is_gone(lab.port))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "needs one of --pid, --unit"),
        (("--pid", "1", "--concurrency", "2", "--rate-per-s", "1"), "and not both"),
        (("--pid", "1", "--extra-body", "nonsense"), "must be a JSON object"),
        (("--pid", "1", "--url", "localhost:8000"), "must be like http://"),
        (("--unit", "no-such-unit.service"), "no-such-unit"),
        (("--pid", "1", "--key-variable", "NO_SUCH_KEY"), "NO_SUCH_KEY must hold the server's key"),
        (("--pid", "1", "--observe-only", "--sm-clock-mhz", "1005"), "drop --sm-clock-mhz"),
        (("--pid", "1", "--requests", "0"), "requests must be a whole number of at least 1"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(lab, options, said):
    assert said in lab.refused(*options)


def test_a_server_that_should_run_and_does_not_answer_is_told_soon(lab, monkeypatch):
    assert deployment.RUNNING_S <= 10
    monkeypatch.setattr(deployment, "RUNNING_S", 0.5)

    said = lab.refused("--pid", str(os.getpid()))

    assert "must be ready within 0.5 s" in said


def test_a_port_that_is_taken_is_refused_before_anything_starts(lab):
    with subprocess.Popen(lab.server) as other:
        until(lambda: not is_gone(lab.port))
        done = lab.bench(server=lab.server)
        other.kill()

    assert done.returncode == 2
    assert "something answers at" in done.stderr


def test_a_free_port_stands_for_the_placeholder(lab):
    lab.server[2] = "{port}"
    command = shlex.join(lab.server)

    done = lab.bench("--requests", "40", "--command", command, "--url", "http://127.0.0.1:{port}")

    assert done.returncode == 0, done.stderr
    assert lab.result["url"] != f"http://127.0.0.1:{lab.port}"
    assert lab.result["metrics"].get("energy_per_request_j", 0) > 0, lab.result


def test_clocks_hold_while_the_server_is_driven_and_are_given_back(lab, tmp_path):
    guard = tmp_path / "guard.sock"
    options = ("--requests", "48", "--uuid", GPU, "--sm-clock-mhz", "1005")
    try:
        done = lab.bench(*options, "--guard-socket", str(guard), server=lab.server)
    finally:
        end_guard(guard)

    assert done.returncode == 0, done.stderr
    assert lab.result["requested"]["sm_clock_mhz"] == 1005
    (receipt,) = lab.result["receipts"]
    assert receipt["held"]["sm_clock_mhz"] == 1005
    (gpu,) = lab.result["gpus"]
    assert gpu["sm_clock_mhz"] == 1005
    assert gpu["findings"] == []
    assert not (lab.store / GPU / "locked_sm_mhz").exists()
    assert "ran at 1005MHz" in done.stderr


def test_the_main_process_of_a_unit_is_the_server(lab, tmp_path):
    with subprocess.Popen(lab.server) as server:
        systemctl = tmp_path / "bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(f'#!/bin/sh\n[ "$4" = vllm.service ] && echo {server.pid} || echo 0\n')
        systemctl.chmod(0o755)
        path = f"{systemctl.parent}:{os.environ['PATH']}"
        done = lab.bench("--unit", "vllm.service", "--requests", "64", PATH=path)
        stopped = lab.bench("--unit", "other.service", PATH=path)
        server.kill()

    assert done.returncode == 0, done.stderr
    (gpu,) = lab.result["gpus"]
    assert gpu["seen"]
    assert gpu["findings"] == []
    assert stopped.returncode == 2
    assert "other.service must run to be measured" in stopped.stderr


KEY = "sk-very-secret"
KEYED = {"STREAMING_KEY": KEY, "MY_KEY": KEY}


def test_a_key_is_sent_and_kept_to_ourselves(lab, tmp_path, store_uri, fresh_store):
    options = ("--key-variable", "MY_KEY", "--requests", "8", "--mlflow", store_uri)

    done = lab.bench(*options, server=lab.server, **KEYED)

    assert done.returncode == 0, done.stderr
    assert lab.result["served"]["num_failed"] == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (tmp_path / "mlflow.db").read_bytes() != fresh_store.read_bytes()
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert KEY not in done.stdout + done.stderr


def test_a_server_that_wants_a_key_says_how_to_give_it(lab):
    done = lab.bench("--requests", "1", server=lab.server, STREAMING_KEY=KEY)

    assert done.returncode == 2
    assert "--key-variable" in done.stderr


def test_a_wrong_key_that_the_server_repeats_is_not_told(lab):
    options = ("--key-variable", "MY_KEY", "--model", "delays", "--warmup", "0", "--requests", "1")
    with subprocess.Popen(lab.server, env={**os.environ, "STREAMING_KEY": "other"}) as server:
        said = asyncio.run(asked_with(f"http://127.0.0.1:{lab.port}", KEY))
        done = lab.bench(*options, "--pid", str(server.pid), MY_KEY=KEY)
        server.kill()

    assert "HTTP 401: not Bearer ***" in said
    assert done.returncode == 2
    assert KEY not in done.stderr


async def asked_with(url, key):
    client = Client(url, key=key)
    give_up_s = time.monotonic() + PATIENCE_S
    while (answer := await client.ask(CHAT, {}, 0.0)).failure.startswith("[Errno"):
        assert time.monotonic() < give_up_s
        await asyncio.sleep(0.1)
    return answer.failure


def test_a_key_in_the_command_line_is_refused(lab):
    done = lab.bench("--key-variable", "MY_KEY", server=[*lab.server, KEY], MY_KEY=KEY)

    assert done.returncode == 2
    assert "must not be in its command line" in done.stderr


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl signs")


@pytest.fixture
def certificate(tmp_path):
    """A self-signed one, and its private key before it."""
    key, signed, both = (tmp_path / name for name in ("key.pem", "signed.pem", "both.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(signed)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + signed.read_text())
    return signed, both


@needs_openssl
def test_a_certificate_of_ones_own_is_trusted_through_the_environment(lab, certificate):
    signed, both = certificate
    trust = {"SSL_CERT_FILE": str(signed), "STREAMING_PEM": str(both)}

    done = lab.bench("--requests", "8", server=lab.server, scheme="https", **trust)

    assert done.returncode == 0, done.stderr
    assert lab.result["served"]["num_failed"] == 0
    assert lab.result["metrics"]["ttft_p50_s"] >= FIRST_S


@needs_openssl
def test_a_certificate_that_nobody_trusts_is_one_line_at_once(lab, certificate):
    _, both = certificate
    begun_s = time.monotonic()

    done = lab.bench(server=lab.server, scheme="https", STREAMING_PEM=str(both))

    assert done.returncode == 2
    assert "must be trusted: self-signed certificate" in done.stderr
    assert "SSL_CERT_FILE" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert time.monotonic() - begun_s < 100  # a server may take ten minutes to load
