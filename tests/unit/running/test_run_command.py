"""`joulelab run` around real programs, on simulated GPUs in real time."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fake_gpu import FOREIGN_PID
from guard_fakes import end_guard

import joulelab
from joulelab.cli.main import main
from joulelab.devices.simulated import DriverStore, fleet
from joulelab.devices.simulated.faults import Fault
from joulelab.guard import GuardClient

SOURCE = str(Path(joulelab.__file__).parents[1])
FIRST, SECOND = "SIM-h200_sxm-0", "SIM-h200_sxm-1"
LOAD_W = 200.0
CONTEXT_W = 100.0
"""More than a board draws because somebody holds it, besides what they do."""


WATCHED = "until [ $(ls /proc/$PPID/task | wc -l) -gt 2 ]; do sleep 0.05; done"
"""For a shell program: wait until the command, its parent, has the threads that read the GPUs."""


class Lab:
    """Two simulated GPUs, and programs that are run under measurement."""

    def __init__(self, folder):
        self.folder = folder
        self.store = folder / "gpus"
        self.result_path = folder / "result.json"
        fleet("h200_sxm", 2, str(self.store))
        self.driver = DriverStore(self.store)
        options = ["--device", "simulated", "--store", str(self.store)]
        self.command = [sys.executable, "-m", "joulelab.cli.main", "run", *options]
        self.command += ["--json", str(self.result_path)]
        self.environment = {**os.environ, "PYTHONPATH": SOURCE}

    def words(self, *program, options=()):
        return [*self.command, *options, "--", *program]

    def start(self, *program, options=(), **streams):
        return subprocess.Popen(
            self.words(*program, options=options), env=self.environment, text=True, **streams
        )

    def run(self, *program, options=(), text=None):
        with self.start(
            *program,
            options=options,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            out, err = running.communicate(text, timeout=200)
        return running.returncode, out, err

    @property
    def result(self):
        return json.loads(self.result_path.read_text())

    def using(self, uuid, program, *faults):
        """A shell program that holds a GPU, and draws power on it, while it runs another."""
        held = Fault(kind="foreign_process", pid=FOREIGN_PID, power_w=LOAD_W).line
        lines = " ".join(f'"{line}"' for line in (held, *(fault.line for fault in faults)))
        path = self.store / uuid / "faults"
        written = f'printf "%s\\n" {lines.replace(str(FOREIGN_PID), "$$")} > {path}.new'
        return ("sh", "-c", f"{written} && mv {path}.new {path}; {program}")


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def named(uuid):
    return ("--uuid", uuid)


def test_a_program_keeps_its_input_its_output_and_its_exit_code(lab):
    code, out, err = lab.run("sh", "-c", "cat; echo told >&2; exit 3", text="words\n")

    assert (code, out) == (3, "words\n")
    assert err.startswith("told\n")
    assert "exit code 3" in err


def test_the_end_of_a_program_is_seen_when_it_comes(lab):
    """A thread that a check's imports had started took the kernel's word: all ended on the second.

    A busy machine may start a program late, so one of ten counts.
    """
    took_s = []
    while len(took_s) < 10 and min(took_s, default=1.0) >= 0.8:
        lab.run("true")
        took_s.append(lab.result["duration_s"])

    assert min(took_s) < 0.8


def test_the_gpu_that_a_program_uses_is_found_and_measured(lab):
    """A busy machine sees the end of a program late, which matters less of a longer one."""
    power_w, idle_w, num_runs = 0.0, 0.0, 0
    while not idle_w + LOAD_W < power_w < idle_w + LOAD_W + CONTEXT_W:
        lab.run(*lab.using(SECOND, f"{WATCHED}; sleep {4 * 2**num_runs}"))
        (gpu,), (other,) = lab.result["gpus"], lab.result["others"]
        power_w, idle_w = (each["known_energy_j"] / each["duration_s"] for each in (gpu, other))
        num_runs += 1
        assert num_runs <= 3, (power_w, idle_w)

    assert (gpu["uuid"], other["uuid"]) == (SECOND, FIRST)
    assert gpu["seen"]
    assert power_w <= gpu["peak_power_w"] < idle_w + LOAD_W + CONTEXT_W
    assert lab.result["metrics"]["energy_j"] == gpu["known_energy_j"]
    assert gpu["findings"] == []


def test_of_many_gpus_that_do_not_count_a_line_tells_what_they_drew_together(lab):
    """Seven lines told of the seven others of a node."""
    fleet("h200_sxm", 5, str(lab.store))

    _, _, err = lab.run("sleep", "0.5", options=named(FIRST))

    drawn_j = sum(gpu["known_energy_j"] for gpu in lab.result["others"])
    (told,) = [line for line in err.splitlines() if line.startswith("Not counted")]
    assert told.startswith("Not counted: 4 other GPUs drew ")
    assert float(told.split()[6]) == pytest.approx(drawn_j, rel=1e-3)


def test_a_program_that_uses_no_gpu_has_no_energy_but_a_reason(lab):
    code, _, err = lab.run("sleep", "0.3")

    assert code == 0
    assert "energy_j" not in lab.result["metrics"]
    assert "seen on none of the GPUs" in lab.result["reason"]
    assert "No energy: The program was seen on none" in err


def test_a_program_that_uses_another_gpu_than_the_one_named_is_told(lab):
    lab.run(*lab.using(SECOND, f"{WATCHED}; sleep 2"), options=named(FIRST))

    assert [gpu["uuid"] for gpu in lab.result["gpus"]] == [FIRST]
    told = " ".join(lab.result["notes"])
    assert f"{FIRST} was named, but the program was not seen on it" in told
    assert f"{SECOND} was not named, but the program was seen on it" in told


def test_a_machine_without_a_gpu_runs_the_program_and_says_why_there_is_no_energy(lab):
    lab.command[lab.command.index("simulated")] = "smi"

    code, _, _ = lab.run("sh", "-c", "exit 4")

    assert code == 4
    assert "nvidia-smi" in lab.result["reason"]


def test_the_program_starts_before_anything_heavy_is_imported():
    code = (
        "import sys, joulelab.cli.main, joulelab.cli.run\n"
        "print(sorted({'numpy', 'psutil', 'pynvml', 'scipy', 'rich.table'} & sys.modules.keys()))"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_go_through_to_the_program_once(lab, number):
    counting = (
        "import signal, time\n"
        "seen = []\n"
        f"signal.signal({int(number)}, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "raise SystemExit(40 + len(seen))\n"
    )
    with lab.start(sys.executable, "-c", counting, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        running.send_signal(number)

    assert running.returncode == 41


def test_ctrl_c_on_a_terminal_reaches_the_program_once(lab):
    counting = (
        "import signal, time\n"
        "seen = []\n"
        "signal.signal(2, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "raise SystemExit(40 + len(seen))\n"
    )
    words = lab.words(sys.executable, "-c", counting)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, lab.environment)
    told = b""
    while b"ready" not in told:
        told += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    with suppress(OSError):  # the terminal ends with its last process
        while os.read(terminal, 1000):
            pass

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 41


def test_a_killed_program_is_measured_until_then_and_gives_the_signals_code(lab):
    code, _, err = lab.run("sh", "-c", f"{WATCHED}; sleep 1; kill -KILL $$", options=named(FIRST))

    assert code == 128 + signal.SIGKILL
    assert "ended by SIGKILL" in err
    assert lab.result["signal_name"] == "SIGKILL"
    assert lab.result["metrics"]["energy_j"] > 0


def test_a_program_that_replaces_its_process_goes_on_being_measured(lab):
    code, _, _ = lab.run(
        *lab.using(FIRST, f"{WATCHED}; exec sh -c 'sleep 1; exit 6'"), options=named(FIRST)
    )

    assert code == 6
    (gpu,) = lab.result["gpus"]
    assert gpu["seen"]
    assert gpu["duration_s"] > 1.0


def test_a_child_that_came_and_went_is_the_programs_own(lab):
    *_, inner = lab.using(FIRST, "sleep 2")

    lab.run(
        "sh",
        "-c",
        f"{WATCHED}; sh -c '{inner}'; rm {lab.store}/{FIRST}/faults; true",
        options=named(FIRST),
    )

    (gpu,) = lab.result["gpus"]
    assert gpu["seen"]
    assert gpu["findings"] == []


def test_processes_that_outlive_the_program_are_named_and_not_waited_for(lab):
    start_s = time.monotonic()
    code, out, _ = lab.run(
        "sh", "-c", "(setsid sleep 600 >/dev/null 2>&1 & echo $!)", options=named(FIRST)
    )
    pid = int(out)
    os.kill(pid, signal.SIGKILL)

    assert code == 0
    assert time.monotonic() - start_s < 200
    assert any("left processes behind" in note and str(pid) in note for note in lab.result["notes"])


def test_a_process_that_outlives_the_program_by_less_than_the_measurement_is_named_too(lab):
    """It was looked for when all else was done, and then had gone."""
    program = (
        "import os, time\n"
        "program = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    daemon = os.fork()\n"
        "    if daemon: print(daemon, flush=True); os._exit(0)\n"
        "    while os.path.exists(f'/proc/{program}'): time.sleep(0.01)\n"
        "    threads = f'/proc/{os.getppid()}/task'\n"  # the first to end has looked
        "    num = len(os.listdir(threads))\n"
        "    while len(os.listdir(threads)) >= num: time.sleep(0.01)\n"
        "    os._exit(0)\n"
        "time.sleep(1.0)"
    )
    _, out, _ = lab.run(sys.executable, "-c", program, options=named(FIRST))

    (note,) = (note for note in lab.result["notes"] if "left processes behind" in note)
    assert f"behind: {int(out)} (python" in note


def test_a_foreign_process_on_the_gpu_leaves_no_number(lab):
    lab.driver.state(FIRST).inject(Fault(kind="foreign_process", pid=1, power_w=50.0))

    lab.run("sh", "-c", f"{WATCHED}; sleep 1", options=named(FIRST))

    assert "energy_j" not in lab.result["metrics"]
    assert "foreign_process" in lab.result["reason"]


def test_a_throttled_gpu_keeps_its_number_and_carries_the_finding(lab):
    fault = Fault(kind="throttle", clock_mhz=600, reason="hw_thermal")

    lab.run(*lab.using(FIRST, f"{WATCHED}; sleep 2", fault), options=named(FIRST))

    (gpu,) = lab.result["gpus"]
    assert [finding["reason"] for finding in gpu["findings"]] == ["throttled"]
    assert lab.result["metrics"]["energy_j"] > 0


def test_a_gpu_that_is_lost_leaves_no_number_and_the_programs_exit_code(lab):
    fault = lab.store / FIRST / "faults"

    code, _, _ = lab.run(
        "sh", "-c", f"sleep 1; echo lost > {fault}; sleep 1; exit 7", options=named(FIRST)
    )

    assert code == 7
    assert "fallen off the bus" in lab.result["reason"]
    assert "energy_j" not in lab.result["metrics"]


def test_clocks_are_borrowed_while_the_program_runs_and_given_back(lab):
    socket = lab.folder / "g" / "s"
    lock = lab.store / FIRST / "locked_sm_mhz"
    try:
        _, out, _ = lab.run(
            "sh",
            "-c",
            f"sleep 0.5; cat {lock}",
            options=(*named(FIRST), "--guard-socket", str(socket), "--sm-clock-mhz", "1005"),
        )
        guard = GuardClient(socket, start=False)
        (blocked,) = [
            line
            for line in Path(f"/proc/{guard.status().pid}/status").read_text().splitlines()
            if line.startswith("SigBlk")
        ]
    finally:
        end_guard(socket)

    assert int(blocked.split()[1], 16) == 0, "the guard must hear signals that this command holds"
    assert out == "1005 1005\n"
    assert not lock.exists()
    (receipt,) = lab.result["receipts"]
    assert receipt["held"]["sm_clock_mhz"] == 1005
    (gpu,) = lab.result["gpus"]
    assert gpu["sm_clock_mhz"] == 1005
    assert gpu["findings"] == []


def test_the_result_becomes_a_run_in_mlflow(lab, store_uri):
    from mlflow import MlflowClient

    lab.run("sleep", "1", options=(*named(FIRST), "--mlflow", store_uri, "--experiment", "nights"))

    with warnings.catch_warnings(action="ignore"):  # MLflow's own
        client = MlflowClient(store_uri)
        experiment = client.get_experiment_by_name("nights")
        (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["energy_j"] == lab.result["metrics"]["energy_j"]
    assert run.data.params["command"] == "sleep 1"
    assert run.data.tags["gpu_uuid"] == FIRST
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize(
    ("options", "program", "code", "said"),
    [
        (("--observe-only", "--sm-clock-mhz", "1005"), ("true",), 2, "--observe-only measures"),
        (named("SIM-9"), ("true",), 2, FIRST),
        (("--json", "/nowhere/x.json"), ("true",), 2, "folder that is there"),
        (("--mlflow", "nonsense"), ("true",), 2, "MLflow tracking URI"),
        ((), (), 2, "needs a program after two dashes"),
        ((), ("no-such-program",), 127, "No such file"),
        ((), ("/",), 126, "Permission denied"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused_before_anything_runs(
    lab, capsys, *, options, program, code, said
):
    found = main(lab.words(*program, options=options)[3:])

    assert found == code
    assert said in " ".join(capsys.readouterr().err.split())
    assert not lab.result_path.exists()


def test_signals_reach_a_process_whose_program_never_started(lab):
    """They stayed held back: in one that went on, Ctrl-C and SIGTERM did nothing any more."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    code = main(
        ["run", "--device", "simulated", "--store", str(lab.store), "--", "no-such-program"]
    )

    assert code == 127
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == held
    assert "joulelab-child" not in [thread.name for thread in threading.enumerate()]


def test_orphans_go_to_init_again_once_a_process_has_run_its_program(lab):
    """They stayed its own: processes that ended later on stayed zombies until it ended."""
    main(["run", "--device", "simulated", "--store", str(lab.store), "--", "no-such-program"])

    starts_one = ["sh", "-c", "sleep 5 >/dev/null & echo $!"]
    left = psutil.Process(int(subprocess.check_output(starts_one)))

    assert left.ppid() != os.getpid()
    left.kill()


def test_a_device_that_nobody_knows_is_refused_before_the_program_starts(lab, tmp_path):
    started = tmp_path / "started"

    code, _, said = lab.run("touch", str(started), options=("--device", "cuda"))

    assert code == 2
    assert "Unknown device 'cuda'" in said
    assert not started.exists()
