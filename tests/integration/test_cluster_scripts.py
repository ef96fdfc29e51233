"""The shell scripts that start clusters, and jobs submitted to one."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from own_cluster import environment_of, place_made, processes_of, shell, started
from waiting import until

from joulelab.devices.simulated import DriverStore
from joulelab.tracking.store import ResultStore, study_folders

ROOT = Path(__file__).parents[2]
SWEEP = ["experiments/dvfs_sweep.py", "gemm", "--every", "40", "--repeats", "1", "--num-gpus", "1"]
NUM_TRIALS = 6  # the default clock, every 40th of 110 and the lowest, and a sentinel
UNTRACKED = ["--tracking-uri", "none"]
LONG_SWEEP = [*SWEEP, "--repeats", "500", *UNTRACKED]

# SLURM's commands as far as ray.sbatch needs them: a step of one leader per node, on this machine.
SRUN = """for script; do :; done
for ((rank = 0; rank < SLURM_JOB_NUM_NODES; rank++)); do
    SLURM_PROCID=$rank "$script" >"$RUN_DIR/node-$rank.log" 2>&1 &
    echo $! >>"$RUN_DIR/leaders"
done
[[ $* != *--kill-on-bad-exit=1* ]] || wait -n || kill -KILL $(cat "$RUN_DIR/leaders")
wait
"""
SCANCEL = 'kill -TERM $(cat "$RUN_DIR/leaders")'
SCONTROL = 'echo "$@" >"$RUN_DIR/requeued"'


@pytest.fixture
def place():
    with place_made() as folder:
        yield folder


@pytest.fixture
def environment(place):
    return environment_of(place)


@pytest.fixture(scope="module")
def head():
    """A cluster of this machine alone, as a user would start it; its folder and environment."""
    with place_made() as place, started(place, environment_of(place)) as made:
        yield made


def test_a_port_that_another_program_has_is_refused_before_anyone_is_told_of_it(environment):
    with socket.create_server(("", int(environment["RAY_PORT"]))):
        started = shell("cluster/ray_node.sh", environment)

    assert started.returncode == 1
    assert f"Port {environment['RAY_PORT']} of " in started.stderr
    assert "Set RAY_PORT" in started.stderr
    assert not Path(environment["RUN_DIR"], "head").exists()


def test_a_second_start_of_a_cluster_of_this_machine_leaves_the_first_its_place(environment):
    port = int(environment.pop("RAY_PORT"))
    own = {"RAY_PORT": str(port), "GIVEN_PORT": ""}  # as if it followed from the machine

    with socket.create_server(("", port)):
        started = shell("cluster/ray_node.sh", environment | own)

    assert started.returncode == 1
    assert f"Port {port} of " in started.stderr
    assert not Path(environment["RUN_DIR"], "head").exists()


def test_every_job_has_ports_below_those_that_the_system_hands_out(environment):
    """Those of jobs 1,000 apart were the same, and many were among the ephemeral ones."""
    del environment["RAY_PORT"]
    jobs = [1, 638, 999, 1000, 1001, 2001, 67_108_863]
    said = shell(
        f"for SLURM_JOB_ID in {' '.join(map(str, jobs))}; do "
        "unset RAY_PORT GIVEN_PORT; . cluster/env.sh; echo $RAY_PORT; done",
        environment,
    )

    ports = [int(line) for line in said.stdout.split()]
    assert len(set(ports)) == len(jobs)
    assert all(20000 <= port <= 32768 - 20 for port in ports)


def test_a_job_from_the_shell_of_another_cluster_has_places_of_its_own(environment):
    """It took over folder and ports, and ended in the way of the cluster that it was not."""
    for name in ("RUN_DIR", "RAY_TMPDIR", "RAY_PORT"):
        del environment[name]
    places = "echo $RUN_DIR $RAY_TMPDIR $RAY_PORT"
    job = f"SLURM_JOB_ID=7 bash -c '. cluster/env.sh; {places}'"

    said = shell(f". cluster/env.sh; {places}; {job}", environment)

    [ours, its] = [line.split() for line in said.stdout.splitlines()]
    assert its == [f"{ROOT}/.run/7", "/tmp/ray-7", "20140"]
    assert not set(ours) & set(its)


def test_a_head_whose_ports_are_taken_goes_on_to_free_ones(place, environment):
    """Every port of the block counts: Ray dies of any that it is told and cannot have."""
    del environment["RAY_PORT"]
    environment["SLURM_JOB_ID"] = str(random.randrange(638))
    first = int(shell(". cluster/env.sh; echo $RAY_PORT", environment).stdout)
    install(place, ray='printf "%s\\n" "$@"', joulelab="exit")

    with socket.create_server(("127.0.0.1", first + 1)):
        started = shell("cluster/ray_node.sh", environment | {"VENV": str(place)})

    assert started.returncode == 0, started.stderr
    options = dict(word.split("=") for word in started.stdout.split() if word.count("=") == 1)
    port = int(options["--port"])
    assert (port - first) % 20 == 0
    assert port != first
    assert options["--dashboard-port"] == str(port + 1)
    assert Path(environment["RUN_DIR"], "head").read_text().endswith(f":{port}")
    assert Path(environment["RUN_DIR"], "api").read_text().endswith(f":{port + 1}")


def test_a_job_in_a_container_has_its_python_and_the_nodes_slurm(place, environment):
    """Ray, the token's maker and what ends the guard are of the image; no script names it."""
    inside = place / "inside"
    install(inside, ray='echo "ray $*"', joulelab='echo "joulelab $*" >&2')
    (inside / "bin/python").symlink_to(sys.executable)
    image = f'echo "$*" >>{place}/calls; shift 5; PATH={inside}/bin:$PATH; exec "$@"'
    install(place, apptainer=image)
    variables = {"CONTAINER": "/images/lab.sif", "VENV": str(place), "SLURM_JOB_ID": "7"}

    ended = shell("cluster/ray_node.sh", environment | variables)

    assert ended.returncode == 0, ended.stderr
    assert "ray start --head" in ended.stdout
    assert len(Path(environment["RUN_DIR"], "token").read_text()) == 64
    calls = [line.split() for line in (place / "calls").read_text().splitlines()]
    assert [call[5] for call in calls] == ["python", "ray", "joulelab"]
    for call in calls:
        assert call[:3] + call[4:5] == ["exec", "--nv", "--bind", "/images/lab.sif"]
        assert str(ROOT) in call[3].split(",")
    assert calls[-1][6:] == ["guard", "--stop"]


@pytest.mark.parametrize(
    ("commands", "says"),
    [({}, "has no Ray: run make setup there"), ({"ray": "exit", "python": "exit 3"}, "")],
    ids=["no Ray", "a broken Python"],
)
def test_a_node_without_a_python_that_works_makes_no_token(place, environment, commands, says):
    """An empty one was made, and what ended the node was that a command was not found."""
    install(place, **commands)
    variables = {"VENV": str(place), "PATH": "/usr/bin:/bin"}

    ended = shell("cluster/ray_node.sh", environment | variables)

    assert ended.returncode != 0
    assert says in ended.stderr
    assert "not found" not in ended.stderr
    assert not Path(environment["RUN_DIR"], "token").exists()
    failed = Path(environment["RUN_DIR"], "failed")
    assert failed.exists() == bool(says)
    assert not says or says in failed.read_text()


@pytest.mark.parametrize(
    ("allowed", "taken"),
    [(None, ["GPU-a", "GPU-b"]), ("1", ["GPU-b"]), ("GPU-a", ["GPU-a"]), ("", []), ("MIG-a", [])],
)
def test_a_node_takes_the_gpus_that_its_job_was_given(place, environment, allowed, taken):
    """A job that was given none (an empty list) took all of the node, those of others included."""
    smi = {"nvidia-smi": 'printf "0, GPU-a\\n1, GPU-b\\n"'}
    install(place, ray='echo "$@"', joulelab="exit", **smi)
    variables = environment | {"VENV": str(place)}
    variables.pop("CUDA_VISIBLE_DEVICES", None)
    given = {} if allowed is None else {"CUDA_VISIBLE_DEVICES": allowed}

    ended = shell("cluster/ray_node.sh", variables | given)

    assert f"--num-gpus={len(taken)} " in ended.stdout, ended.stderr
    assert re.findall("dev:(GPU-.)", ended.stdout) == taken


@pytest.mark.parametrize(("node", "requeued"), [("n2", True), ("n3", False)])
def test_the_first_node_left_of_a_job_whose_script_is_gone_queues_it_again(
    place, environment, node, requeued
):
    """It held its nodes, with nothing on them, until its time was up."""
    install(
        place,
        ray="exit 1",
        joulelab="exit",
        squeue='echo "n[2-3]"',
        scontrol=f'[ $1 = requeue ] && echo "$2" >{place}/requeued || printf "n2\\nn3\\n"',
    )
    (place / "run").mkdir()
    (place / "run/api").touch()
    slurm = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SCRIPT_HOST": "n1", "SLURMD_NODENAME": node}

    with socket.create_server(("127.0.0.1", 0)) as listening:
        (place / "run/head").write_text(f"127.0.0.1:{listening.getsockname()[1]}")
        ended = shell("cluster/ray_node.sh", environment | slurm | {"VENV": str(place)})

    assert "ended with 1" in (place / "run/failed").read_text(), ended.stderr
    assert (place / "requeued").exists() is requeued


def install(place, **commands):
    """Put commands before all others for who activates ``place``."""
    (place / "bin").mkdir(parents=True)
    (place / "bin/activate").write_text(f'PATH="{place}/bin:$PATH"')
    for name, does in commands.items():
        (place / "bin" / name).write_text(f"#!/bin/bash\n{does}\n")
        (place / "bin" / name).chmod(0o755)


def wait_for_measurements(results, count=6, limit_s=240):
    """Wait until more was measured than the sentinels, so that clocks were set by then."""
    until(lambda: num_measured(results) >= count, limit_s, interval_s=0.1)


def num_measured(results):
    return sum(p.read_bytes().count(b"\n") for p in results.glob("*/measurements/*.jsonl"))


def measured(folder):
    [study] = study_folders(folder)
    return ResultStore(study).read()


@pytest.mark.slow
def test_an_experiment_is_submitted_with_a_snapshot_of_the_code(head):
    place, environment = head
    sweep = [*SWEEP, *UNTRACKED, "--guard-socket", f"{place}/guard.sock", "--store"]
    submit = ". cluster/env.sh; ray job submit --runtime-env cluster/runtime_env.yaml -- python"
    sweep += [f"{place}/gpus", "--results-dir", f"{place}/snapshot"]

    done = shell(f"{submit} {' '.join(sweep)}", environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(measured(place / "snapshot")) == NUM_TRIALS


@pytest.mark.slow
def test_metrics_which_ask_for_no_token_are_served_to_nobody(head):
    """Ray's agent told them to whoever reached the node."""
    place, _ = head
    heard = {
        (process.name(), each.laddr.ip)
        for process in processes_of(place)
        for each in process.net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    }

    assert {name for name, _ in heard} >= {"gcs_server", "raylet"}
    assert not [name for name, ip in heard if ip == "0.0.0.0"]


@pytest.mark.slow
def test_a_job_of_a_file_of_the_checkout_that_is_stopped_concludes_from_what_it_has(head):
    place, environment = head
    results = place / "results"
    sweep = [*LONG_SWEEP, "--guard-socket", f"{place}/guard.sock", "--results-dir", f"{results}"]
    sweep += ["--store", f"{place}/gpus"]
    submit = ". cluster/env.sh; ray job submit --no-wait --submission-id it --"
    submitted = shell(f"{submit} {' '.join(sweep)}", environment)
    assert submitted.returncode == 0, submitted.stderr
    wait_for_measurements(results)

    stopped = shell(". cluster/env.sh; ray job stop it; ray job logs it", environment)

    [study] = study_folders(results)
    assert "Interrupted: concluding from what was measured" in stopped.stdout
    assert ResultStore(study).read_answer() is not None, stopped.stdout
    assert not DriverStore(place / "gpus").locked_uuids()


def make_job(place, environment, program, patient=False, **more):
    """Start a job on one node without Ray, whose experiment is ``program``, and wait for it.

    Unless it is ``patient``, an experiment has no time to conclude. ``more`` commands by name.
    """
    ready = f'[ "$1" = -m ] || exec {sys.executable} "$@"\n'
    nodes = '[[ $* != *joulelab* ]] || exec echo "$@" >$RUN_DIR/restored\n'
    nodes += "echo $$ >$RUN_DIR/leaders\nexec sleep 60\n"
    no_time = '[ "$2" != tail ] || exit 124\nshift\nexec "$@"\n'
    commands = {"python": ready, "srun": nodes} | ({} if patient else {"timeout": no_time})
    install(place, scancel=SCANCEL, scontrol=SCONTROL, **commands, **more)
    job = subprocess.Popen(
        ["bash", "cluster/ray.sbatch", "-c", program],
        cwd=ROOT,
        env=environment
        | {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_SUBMIT_DIR": str(ROOT)}
        | {"VENV": str(place), "RAY_TMPDIR": str(place / "ray")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert job.stdout.readline() == b"1\n"
    return job


@pytest.fixture
def allocation(place, environment):
    """What a shell holds in an allocation of one node."""
    install(place, srun=SRUN, scancel=SCANCEL, scontrol=SCONTROL)
    return environment | {
        "PATH": f"{place / 'bin'}:{environment['PATH']}",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_SUBMIT_DIR": str(ROOT),
    }


def test_a_slurm_job_that_was_too_short_to_measure_is_not_queued_again(place, environment):
    """With a limit below its notice SLURM sends the signal at once, in each life."""
    job = make_job(place, environment, "import time; print(1, flush=True); time.sleep(600)")

    job.send_signal(signal.SIGUSR1)
    _, error = job.communicate(timeout=50)

    assert job.returncode == 143
    assert "give it more (--time)" in error.decode()
    assert not (place / "run" / "requeued").exists()


@pytest.mark.parametrize(("code", "of_job"), [(130, 0), (0, 0), (1, 143)])
def test_a_job_that_is_told_to_end_has_succeeded_if_its_study_concluded(
    place, environment, code, of_job
):
    """It was FAILED with 143, whatever became of the study."""
    program = (
        f"import signal, sys, time; signal.signal(15, lambda *_: sys.exit({code}));"
        "print(1, flush=True); time.sleep(600)"
    )
    job = make_job(place, environment, program, patient=True)

    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=50)

    assert job.returncode == of_job
    assert not (place / "run" / "requeued").exists()


@pytest.mark.parametrize(("code", "of_job"), [(0, 0), (130, 143)])
def test_a_job_that_may_not_be_queued_again_has_succeeded_if_its_study_is_complete(
    place, environment, code, of_job
):
    """Its time was up while the study concluded, and it was FAILED."""
    program = (
        f"import signal, sys, time; signal.signal(15, lambda *_: sys.exit({code}));"
        "print(1, flush=True); time.sleep(600)"
    )
    job = make_job(place, environment | {"LEAST_LIFE_S": "0"}, program, patient=True)
    (place / "bin/scontrol").write_text("#!/bin/sh\necho refused >>$RUN_DIR/asked\nexit 1\n")

    job.send_signal(signal.SIGUSR1)
    job.communicate(timeout=120)

    assert job.returncode == of_job
    assert (place / "run/asked").exists() is bool(code)


def test_a_job_whose_nodes_are_killed_ends_at_once_and_restores_their_clocks(place, environment):
    """It waited half a minute for a Ray that was gone, and clocks stayed set until the epilog."""
    job = make_job(place, environment, "import time; print(1, flush=True); time.sleep(600)")

    os.kill(int((place / "run" / "leaders").read_text()), signal.SIGKILL)
    _, error = job.communicate(timeout=25)

    assert job.returncode == 1
    assert "All nodes have ended" in error.decode()
    assert "guard --restore" in (place / "run" / "restored").read_text()


def test_a_job_with_metrics_exports_them_for_as_long_as_its_study_goes_on(place, environment):
    exporter = f'trap "echo ended >>{place}/exports; exit" TERM\necho "$*" >{place}/exports\n'
    exporter += "while :; do sleep 0.1; done"
    patience = f"import os, time\nwhile not os.path.exists('{place}/exports'): time.sleep(0.1)"
    program = f"print(1, flush=True)\n{patience}"
    environment["METRICS"] = "1"

    job = make_job(place, environment, program, joulelab=exporter)
    job.communicate(timeout=50)

    assert job.returncode == 0
    assert (place / "exports").read_text() == "export-metrics --ray\nended\n"


def test_a_job_that_ends_as_it_should_leaves_restoring_to_its_nodes(place, environment):
    job = make_job(place, environment, "print(1)")

    job.communicate(timeout=50)

    assert job.returncode == 0
    assert not (place / "run" / "restored").exists()


@pytest.mark.slow
def test_a_job_goes_on_without_a_node_that_died_and_is_queued_again_once_its_time_is_up(
    place, allocation
):
    """One dead node ended all, and those that were well kept the clocks that they had."""
    results, failed = place / "results", place / "run" / "failed"
    sweep = [*LONG_SWEEP, "--num-gpus", "2"]
    sweep += ["--results-dir", f"{results}", "--store", f"{place}/gpus"]
    profile = ". cluster/sites/h100-build.sh; GPU_PRODUCT=h200"  # what is simulated
    job = ["bash", "-c", f"{profile}; exec bash cluster/ray.sbatch {' '.join(sweep)}"]
    allocation |= {"SLURM_JOB_NUM_NODES": "2", "LEAST_LIFE_S": "1"}
    with (place / "job.log").open("w") as log:
        job = subprocess.Popen(job, cwd=ROOT, env=allocation, stdout=log, stderr=log)
        wait_for_measurements(results, count=4)
        [raylet] = [
            each
            for each in processes_of(place)
            if each.name() == "raylet" and each.environ()["SLURM_PROCID"] == "1"
        ]
        raylet.kill()
        until(failed.exists)
        num_before = num_measured(results)
        wait_for_measurements(results, count=num_before + 4)
        job.send_signal(signal.SIGUSR1)
        code = job.wait(timeout=180)

    said = (place / "job.log").read_text()
    [study] = study_folders(results)
    assert code == 0, said
    assert study.name == "job-7"  # so that the next allocation goes on with it
    assert (place / "run" / "requeued").read_text() == "requeue 7\n"
    assert "Interrupted: concluding from what was measured" in said
    assert ResultStore(study).read_answer() is not None, said
    assert set(Counter(each.trial for each in measured(results) if each.valid).values()) == {1}
    assert dict(ResultStore(study).read_study().settings)["lab.gpu_product"] == "h200"
    assert DriverStore(place / "gpus").locked_uuids() == ()
    assert "Ray on" in failed.read_text()
    left, _ = psutil.wait_procs(processes_of(place), timeout=60)[::-1]
    assert not left


def test_an_experiment_that_takes_too_long_to_conclude_ends_with_its_job(place, environment):
    """It outlived its cluster by half a minute, and waited for it. Here no time is left at all."""
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    job = make_job(place, environment, f"{deaf}; time.sleep(600)")

    job.send_signal(signal.SIGTERM)
    code = job.wait(timeout=25)

    assert code == 143
    left, _ = psutil.wait_procs(processes_of(place), timeout=25)[::-1]
    assert not left


@pytest.mark.parametrize(("asked", "code"), [("", 0), ("medium,memory=high", 2)])
def test_scripts_refuse_a_job_whose_clocks_slurm_sets(place, asked, code):
    environment = environment_of(place) | {"SLURM_GPU_FREQ": asked}

    script = shell("set -e; . cluster/env.sh; echo goes on", environment)
    by_hand = shell(". cluster/env.sh; echo goes on", environment)

    assert script.returncode == code
    assert ("goes on" in script.stdout) is not bool(asked)
    assert "goes on" in by_hand.stdout
    assert (f"--gpu-freq={asked}" in script.stderr) is bool(asked)
