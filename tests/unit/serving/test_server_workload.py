"""The workload `server`: a load that goes on across repeats, and what it tells of itself."""

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
import streaming_server
from fake_gpu import FOREIGN_PID
from fake_nvml.driver import build
from guard_fakes import end_guard
from publishing import publish
from simulated_lab import typical
from waiting import PATIENCE_S, until

from joulelab.bench import Bench
from joulelab.core.clock import MonotonicClock
from joulelab.core.configuration import Configuration
from joulelab.core.energy import EnergyWindow
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.devices.simulated.faults import Fault
from joulelab.errors import ConfigError, MeasurementError
from joulelab.serving.client import Reply
from joulelab.serving.deployment import free_port
from joulelab.serving.settings import Load, Traffic
from joulelab.serving.workload import Server
from joulelab.testing import WorkloadContract

GPU = "SIM-h200_sxm-0"
FIRST_S, NEXT_S, TOKENS = 0.05, 0.005, 10
BUSY_S = 2.0
"""How late a busy machine may read what has come."""
QUICK = {
    "idle_s": "0", "warmup_min_s": "1", "warmup_max_s": "3", "window_s": "0.5", "limit_s": "4",
}  # fmt: skip


def command(*words):
    return shlex.join([sys.executable, streaming_server.__file__, "{port}", *words])


def knobs(**others):
    asked = {"first_s": FIRST_S, "next_s": NEXT_S} | others.pop("asked", {})
    known = {"command": command(), "concurrency": 2, "requests": 4, "output_tokens": TOKENS}
    return known | {"extra_body": json.dumps(asked), "warmup": 1, "ready_timeout_s": 20.0} | others


@pytest.fixture
def made():
    """Makes workloads, and closes them."""
    every = []

    def make(**others):
        every.append(Server.from_knobs(knobs(**others)))
        return every[-1]

    yield make
    for each in every:
        each.close()


class TestServer(WorkloadContract):
    workload = Server
    knobs = knobs(concurrency=1, requests=20, asked={"first_s": 0.001, "next_s": 0.0})


def test_the_work_of_a_repeat_is_the_tokens_that_the_server_tells(made):
    server = made()
    server.prepare()

    assert server.run("serve") % (2 * TOKENS) == 0  # it tells two tokens a piece
    assert server.unit == "output token"


def endless(concurrency):
    """A traffic of requests that take 10 to 20 ms, and how many are in flight."""
    flying = []

    async def ask(number, due_s):
        flying.append(number)
        await asyncio.sleep(0.01 + 0.001 * (number % 10))
        flying.remove(number)
        return Reply(due_s=due_s, stop_s=time.monotonic(), output_tokens=1, is_counted=True)

    return Traffic(Load(concurrency=concurrency), ask), flying


def test_the_loop_stays_full_between_repeats():
    traffic, flying = endless(4)
    try:
        seen = []
        for _ in range(10):
            traffic.take(5)
            time.sleep(0.05)  # nobody waits, and requests go on
            seen.append(len(flying))
    finally:
        traffic.stop(1.0)

    assert sum(seen) / len(seen) > 3.5


def test_answers_that_came_while_nobody_waited_are_in_the_next_repeat():
    traffic, flying = endless(4)
    try:
        traffic.take(4)
        until(lambda: max(flying, default=0) > 44)
        late = traffic.take(1)
    finally:
        traffic.stop(1.0)

    assert len(late) > 30


def test_traffic_that_stops_waits_for_its_last_answers():
    traffic, flying = endless(4)
    traffic.take(4)

    traffic.stop(PATIENCE_S)

    assert flying == []


def test_a_request_that_does_not_end_is_hung_up_on():
    async def ask(_number, _due_s):
        await asyncio.sleep(1000)

    traffic = Traffic(Load(concurrency=1), ask)

    traffic.stop(0.2)

    assert not traffic._thread.is_alive()


def test_a_load_that_breaks_is_an_error_and_no_wait_without_end():
    async def ask(_number, _due_s):
        raise TypeError("no such thing")

    traffic = Traffic(Load(concurrency=1), ask)

    with pytest.raises(MeasurementError, match="no such thing"):
        traffic.take(1)


def test_figures_are_of_the_answers_within_the_windows(made):
    server = made(ttft_limit_s=10.0)
    server.prepare()
    server.run("serve")
    begun_s = time.monotonic()
    work = server.run("serve") + server.run("serve")
    duration_s = time.monotonic() - begun_s
    server.run("serve")
    window = EnergyWindow(
        start_s=begun_s, duration_s=duration_s, energy_j=90.0, energy_u_j=0, source="counter"
    )

    told = server.figures([replace(window, work=work)])

    num = work / (2 * TOKENS)
    assert told["energy_per_request_j"] == pytest.approx(90 / num)
    assert told["requests_per_s"] == told["goodput_per_s"] == pytest.approx(num / duration_s)
    assert told["output_tokens_per_s"] == pytest.approx(work / duration_s)
    assert told["output_tokens_per_request"] == 2 * TOKENS
    assert FIRST_S <= told["ttft_p50_s"] < FIRST_S + BUSY_S


def test_a_server_at_rest_is_asked_nothing(made):
    server = made()
    server.prepare()
    server.run("serve")

    server.rest()

    assert server._traffic is None
    assert server.run("serve") > 0  # and goes on when it is run again


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"refuse": True}, r"of (\d+): \1 x HTTP 503: too much is asked"),
        ({"tell_usage": False}, "must tell how many tokens"),
    ],
)
def test_answers_that_failed_or_cannot_be_counted_are_no_work(made, asked, said):
    server = made(asked=asked, warmup=0)
    server.prepare()

    with pytest.raises(MeasurementError, match=said):
        server.run("serve")


def test_a_server_that_ends_under_load_is_told(made):
    server = made()
    server.prepare()
    (pid,) = server.processes
    os.kill(pid, signal.SIGKILL)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)

    with pytest.raises(MeasurementError, match="ended with exit code -9"):
        server.run("serve")


def test_a_server_that_only_another_load_is_for_is_kept(made):
    first, second, other = made(), made(concurrency=3), made(command=command() + " ")
    first.prepare()
    pid = first.processes

    second.take_over(first)
    first.close()
    second.prepare()
    other.take_over(second)

    assert second.processes == pid
    assert second.run("serve") > 0
    assert other.processes == ()


def test_it_runs_on_the_gpu_that_is_measured(made):
    told = "import os; print(os.environ['CUDA_VISIBLE_DEVICES']); raise SystemExit(3)"
    server = made(command=shlex.join([sys.executable, "-c", told]))
    server.gpu_uuid = "GPU-1234"

    with pytest.raises(MeasurementError, match=r"exit code 3(?s:.*)\nGPU-1234"):
        server.prepare()


@pytest.mark.parametrize("others", [{"command": ""}, {"pid": 1}])
def test_it_must_be_clear_which_server(made, others):
    with pytest.raises(ConfigError, match="its command line, or the process"):
        made(**others).prepare()


def test_a_command_line_that_no_shell_takes_is_refused():
    with pytest.raises(ConfigError, match="words as a shell takes them"):
        Server.from_knobs({"command": "vllm serve 'model"})


def test_simulated_gpus_that_play_costs_refuse_it(tmp_path):
    trial = Trial(study="s", name="t", configuration=Configuration.of("server", knobs()))

    with (
        Bench(typical(tmp_path)) as bench,
        pytest.raises(ConfigError, match="has no cost"),
    ):
        bench.measure(trial)


class Lab:
    """A GPU behind NVML, in real time, on which a server draws 200 W more."""

    def __init__(self, folder, library):
        self.folder = folder
        self.state = DriverStore(folder / "driver").create("h200_sxm", restricted=True)
        self.guard = folder / "guard.sock"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_STORE": str(folder / "driver"),
            "FAKE_NVML_PRIVILEGED": "1",
        }
        line = Fault(kind="foreign_process", pid=FOREIGN_PID, power_w=200.0).line
        self.held = (str(folder / "driver" / GPU / "faults"), line.replace(str(FOREIGN_PID), "PID"))

    def measure(self, *options, **others):
        words = [sys.executable, "-m", "joulelab.cli.main", "measure", "server", "--json"]
        words += ["--device", "nvml", "--guard-socket", str(self.guard)]
        for name, value in (knobs() | others).items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        for name, value in QUICK.items():
            words += [f"--procedure.{name.replace('_', '-')}", value]
        return subprocess.run(
            [*words, *options],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def valid(self, *options, **others):
        """Measure, again where a busy machine made the simulated GPU publish late."""
        for _ in range(8):
            done = self.measure(*options, **others)
            assert done.stdout, done.stderr
            (found,) = json.loads(done.stdout)["measurements"]
            if {finding["reason"] for finding in found["findings"]} - PUBLISHED_LATE:
                break
            if found["valid"]:
                return found
        raise AssertionError(found["findings"])

    def seen(self, **others):
        """Measure, again where the simulated GPU had not yet published who is on it."""
        for _ in range(8):
            (found,) = json.loads(self.measure(**others).stdout)["measurements"]
            if f"did nothing on {GPU}" not in found["findings"][0]["detail"]:
                return found
        raise AssertionError(found["findings"])


def answers_at(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


PUBLISHED_LATE = {"sample_gap", "not_steady", "sources_disagree", "counter_frozen"}


@pytest.fixture
def lab(tmp_path, tmp_path_factory):
    lab = Lab(tmp_path, build(tmp_path_factory.mktemp("nvml")))
    device = SimulatedDevice(lab.state, clock=MonotonicClock())
    ticker = publish(device, period_s=0.01)
    yield lab
    ticker.stop()
    device.close()
    end_guard(lab.guard)


@pytest.mark.slow
def test_a_server_is_measured_at_a_locked_clock(lab):
    found = lab.valid("--sm-clock-mhz", "1095", command=command(*lab.held))

    measured = found["metrics"]
    assert measured["observed.sm_clock_mhz"] == 1095
    assert 250 < measured["power_w"] < 400
    assert measured["figures.ttft_p50_s"] >= FIRST_S
    per_request_j = measured["energy_per_unit_j"] * measured["figures.output_tokens_per_request"]
    assert measured["figures.energy_per_request_j"] == pytest.approx(per_request_j)
    assert measured["figures.output_tokens_per_s"] == pytest.approx(
        1 / measured["time_per_unit_s"], rel=1e-6
    )
    assert lab.state.read("locked_sm_mhz") is None


@pytest.mark.slow
def test_a_server_that_runs_already_is_not_foreign_and_runs_on(lab):
    port = free_port()
    words = shlex.split(command(*lab.held).replace("{port}", str(port)))
    with subprocess.Popen(["sh", "-c", f"{shlex.join(words)} & wait"]) as server:
        until(lambda: answers_at(port))
        try:
            found = lab.valid(command="", pid=server.pid, url=f"http://127.0.0.1:{port}")
            runs_on = server.poll() is None
        finally:
            subprocess.run(["pkill", "-P", str(server.pid)], check=False)

    assert found["metrics"]["energy_per_unit_j"] > 0
    assert runs_on


@pytest.mark.slow
def test_a_server_on_two_gpus_is_no_measurement_of_one(lab):
    second = DriverStore(lab.folder / "driver").create("h200_sxm", 1)
    second.write("readings", (lab.state.read("readings") or ""))
    words = shlex.split(command(*lab.held).replace("{port}", str(port := free_port())))
    with subprocess.Popen(words) as server:
        second.write("processes", f"{server.pid} 1000")
        until(lambda: answers_at(port))
        done = lab.measure(command="", pid=server.pid, url=f"http://127.0.0.1:{port}")
        server.kill()

    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["measurements"]
    assert found["findings"][0]["reason"] == "unsupported"
    assert "SIM-h200_sxm-1" in found["findings"][0]["detail"]


@pytest.mark.slow
def test_a_server_that_the_gpu_does_not_see_is_refused(lab):
    done = lab.measure(command=command())

    (found,) = json.loads(done.stdout)["measurements"]
    assert done.returncode == 1
    assert found["findings"][0]["reason"] == "workload_failed"
    assert f"did nothing on {GPU}" in found["findings"][0]["detail"]


@pytest.mark.slow
def test_a_failed_request_is_a_reason_and_no_number(lab):
    body = json.dumps({"break_after": 3})

    found = lab.seen(command=command(*lab.held), extra_body=body, warmup=0)

    assert found["findings"][0]["reason"] == "workload_failed"
    assert "broke off" in found["findings"][0]["detail"]
    assert "energy_per_unit_j" not in found["metrics"]
    assert not [name for name in found["metrics"] if name.startswith("figures.")]
