"""What is read for the next program while this one is measured, and when it is not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_gpu import FakeGpu, FakeLoad
from typing_extensions import override

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.workloads.bert import BertSettings
from joulelab.workloads.read_ahead import FileReading, Reading, files_of

PROCEDURE = Procedure(idle_s=2.0, warmup_min_s=1.0)


class TimedReading(Reading):
    """Notes in which spells it read, on the GPU's clock."""

    def __init__(self, gpu):
        self._clock, self.spells = gpu.clock, []
        self._since_s = self._clock.now_s()

    @override
    def go_on(self):
        self._since_s = self._clock.now_s()

    @override
    def halt(self):
        self.spells.append((self._since_s, self._clock.now_s()))

    @override
    def close(self):
        self.halt()


class LoadedGpu(FakeGpu):
    """A GPU whose programs are read ahead for."""

    def __init__(self):
        super().__init__()
        self.readings = {}

    @override
    def host(self, workload):
        gpu = self

        class Loaded(FakeLoad):
            @override
            def read_ahead(self):
                return gpu.readings.setdefault(type(workload).__name__, TimedReading(gpu))

        return Loaded(gpu, workload)


def trial_of(workload, **knobs):
    return Trial(study="s", name=workload, configuration=Configuration.of(workload, knobs))


def test_the_next_program_is_read_for_beside_the_present_one_but_in_no_window():
    gpu = LoadedGpu()
    with Bench(gpu, procedure=PROCEDURE) as bench:
        bench.expect(trial_of("bert").configuration)
        (record,) = bench.measure(trial_of("gemm"))
        spells = list(gpu.readings["Bert"].spells)
        ended_s = gpu.clock.now_s()
        bench.measure(trial_of("bert"))

    windows, idle = record.measurement.windows, record.measurement.idle
    first_s, last_s = windows[0].start_s, windows[-1].start_s + windows[-1].duration_s
    ((begun_s, halted_s),) = spells
    assert begun_s <= idle.start_s
    assert idle.start_s + idle.duration_s < halted_s <= first_s
    (_, (again_s, closed_s)) = gpu.readings["Bert"].spells
    assert again_s >= last_s
    assert closed_s == ended_s  # before it is loaded


def test_nothing_is_read_for_the_same_program_at_another_clock():
    gpu = LoadedGpu()
    with Bench(gpu, procedure=PROCEDURE) as bench:
        bench.expect(trial_of("gemm").configuration)
        bench.measure(trial_of("gemm"))

    assert gpu.readings == {}


def test_a_next_program_that_cannot_be_does_not_harm_the_present_one():
    with Bench(LoadedGpu(), procedure=PROCEDURE) as bench:
        bench.expect(trial_of("bert", batch=-1).configuration)
        (record,) = bench.measure(trial_of("gemm"))

    assert record.measurement.valid


@pytest.fixture
def checkpoint(tmp_path):
    """A folder whose weights are a pipe: who reads them waits."""
    os.mkfifo(tmp_path / "model.safetensors")
    return tmp_path


def test_files_are_the_weights_that_are_here(tmp_path):
    (tmp_path / "unet").mkdir()
    wanted = [tmp_path / "model.safetensors", tmp_path / "unet" / "pytorch_model.bin"]
    for path in (*wanted, tmp_path / "config.json"):
        path.write_bytes(b"0")

    assert sorted(files_of(str(tmp_path))) == wanted


def test_a_reader_is_of_the_idle_class_and_reads_to_the_end(checkpoint):
    reading = FileReading(str(checkpoint))
    with (checkpoint / "model.safetensors").open("wb") as pipe:  # once it reads
        pid = _child_of(os.getpid())
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
        pipe.write(b"weights")
    assert reading.wait(20.0)
    reading.close()


def test_a_halted_reader_ends_with_its_program_even_if_that_is_killed(checkpoint):
    code = (
        "import sys, time; from joulelab.workloads.read_ahead import FileReading; "
        "reading = FileReading(sys.argv[1]); open(sys.argv[1] + '/model.safetensors', 'wb'); "
        "reading.halt(); print('halted', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(checkpoint)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"halted\n"
        reader = _child_of(program.pid)
        program.send_signal(signal.SIGKILL)

    deadline_s = time.monotonic() + 10.0
    while Path(f"/proc/{reader}").exists() and _state_of(reader) != "Z":
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_network_reads_its_weights_ahead_and_random_ones_not(checkpoint):
    from joulelab.workloads.bert import Bert

    assert Bert(BertSettings()).read_ahead() is None
    reading = Bert(BertSettings(weights=str(checkpoint))).read_ahead()
    assert isinstance(reading, FileReading)
    reading.close()
    reading.close()


def _child_of(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [c for t in tasks for c in (t / "children").read_text().split()]
    (child,) = [
        int(c) for c in children if b"read_ahead" in Path(f"/proc/{c}/cmdline").read_bytes()
    ]
    return child


def _state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
