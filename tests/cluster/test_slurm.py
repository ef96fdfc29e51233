"""joulelab in a real SLURM of three nodes on this machine: ``make test-cluster``.

However a job ends, nothing of it is left: no process, no clock that is set. What it measured is
kept, and another job that goes on with its study measures the rest, once, and recommends the same.

What a run that was killed itself left goes with ``tests/cluster/lab/down.sh /var/tmp/jl-...``.
"""

import logging
import re
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from slurm_lab import SlurmLab, missing

from joulelab.analysis.sweep import analyse_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LACKING = missing()
_log = logging.getLogger(__name__)
CLEAN_S = 5.0
"""After so long nothing may be left of a job."""

ON_ALL = ["--nodes 3", "--gpus-per-node 2"]
CLOCKS = "--mode custom --clocks-mhz 480 780 1080 1380"
SWEEP = f"experiments/dvfs_sweep.py gemm --n 2048 {CLOCKS} --objective energy --tracking-uri none"
"""Of these clocks 1080 MHz takes the least energy by far: 0.84 J/TFLOP, 780 MHz 0.90."""
LONG = "--procedure.pace reference"
"""Quick studies would be over before anything happens to them."""


def sweep(*, repeats, num_gpus=3, study=None, pace=LONG):
    named = "" if study is None else f" --study {study}"
    return f"{SWEEP} {pace} --repeats {repeats} --num-gpus {num_gpus}{named}"


@pytest.fixture(scope="module")
def lab():
    if LACKING:
        pytest.skip(f"a SLURM on this machine needs {LACKING}")
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/var/tmp"))
    cluster = SlurmLab(folder)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def recommended(lab, study):
    """Return the clock that the stored measurements speak for."""
    [phase] = analyse_sweep(lab.store(study).read(), "energy").phases
    return phase.recommended


def assert_nothing_is_left(lab):
    """Log how long that took, too (``-rP --log-level info`` shows it)."""
    start_s, clean_s = time.monotonic(), None
    while (waited_s := time.monotonic() - start_s) < CLEAN_S:
        if (lab.processes() or lab.locked()) or clean_s is None:
            clean_s = waited_s
        time.sleep(0.1)
    assert lab.processes() == []
    assert lab.locked() == []
    _log.info("Nothing is left after %.1f s.", clean_s)


def assert_complete(lab, study, said, *, repeats):
    """Every trial of the plan has one valid measurement, and the answer is the one that is known.

    ``said`` is what the job printed that has measured the last of it. Sentinels are as many as
    there were GPUs to compare; none was measured twice.
    """
    done, planned = re.findall(r"(\d+) of (\d+) trials done", said)[-1]
    measured = lab.store(study).read()
    valid = Counter(each.trial for each in measured if each.valid)
    assert done == planned, said
    assert len([name for name in valid if not name.startswith("sentinel")]) == 5 * repeats, said
    assert set(valid.values()) == {1}, said
    assert {each.trial for each in measured} == set(valid), said
    assert len(measured) == lab.num_lines(study), "a line is broken"
    assert "Traceback" not in said, said
    assert lab.store(study).read_answer() is not None, said
    assert recommended(lab, study) == "1080MHz", said
    _log.info("%s: %d measurements, none lost, none doubled.", study, len(measured))


def test_a_job_measures_on_all_its_nodes_and_leaves_nothing(lab):
    job = lab.submit(sweep(repeats=2, num_gpus=6, pace=""), *ON_ALL)

    ended = lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")

    assert_nothing_is_left(lab)
    assert ended == "COMPLETED", lab.log(job)
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=2)
    measured = lab.store(f"job-{job}").read()
    assert {each.provenance.hostname for each in measured} == set(lab.nodes)
    assert all(each.valid for each in measured)


def goes_on(lab, study, repeats):
    """Submit a job that goes on with ``study``, and return what it says; nothing is lost."""
    before = [each.measurement_id for each in lab.store(study).read()]
    job = lab.submit(sweep(repeats=repeats, study=study), *ON_ALL)

    ended = lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")

    assert ended == "COMPLETED", lab.log(job)
    assert [each.measurement_id for each in lab.store(study).read()][: len(before)] == before
    return lab.log(job)


def test_a_job_that_is_cancelled_leaves_nothing_and_another_goes_on(lab):
    job = lab.submit(sweep(repeats=4), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)

    lab.user(f"scancel {job}")

    lab.await_state(job, "CANCELLED")
    assert_nothing_is_left(lab)
    assert 5 <= lab.num_lines(f"job-{job}") < 20
    assert_complete(lab, f"job-{job}", goes_on(lab, f"job-{job}", repeats=4), repeats=4)
    assert_nothing_is_left(lab)


def test_a_step_that_is_killed_leaves_no_clock_set_and_another_job_goes_on(lab):
    """The whole cgroup at once, with its clock guard; a step of its own restores, no epilog."""
    job = lab.submit(sweep(repeats=40), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    lab.until(lab.locked, "a clock to be set")

    with lab.without_epilog():
        lab.user(f"scancel --signal=KILL {job}.0")
        assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "FAILED"
        assert_nothing_is_left(lab)
    assert_complete(lab, f"job-{job}", goes_on(lab, f"job-{job}", repeats=40), repeats=40)
    assert_nothing_is_left(lab)


def test_a_job_that_is_killed_whole_has_its_clocks_restored_by_the_epilog(lab):
    job = lab.submit(sweep(repeats=40), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    lab.until(lab.locked, "a clock to be set")

    lab.kill_user()

    lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")
    assert_nothing_is_left(lab)
    assert_complete(lab, f"job-{job}", goes_on(lab, f"job-{job}", repeats=40), repeats=40)
    assert_nothing_is_left(lab)


def test_clocks_that_nobody_could_restore_are_restored_before_the_next_study_measures(lab):
    """It took the lock for its own default clock."""
    job = lab.submit(sweep(repeats=40), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    lab.stop_guards_at_a_clock()
    with lab.without_epilog():
        lab.kill_user()
        lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")
    assert lab.locked() != []

    assert_complete(lab, f"job-{job}", goes_on(lab, f"job-{job}", repeats=40), repeats=40)

    assert_nothing_is_left(lab)


def test_a_node_whose_ray_dies_is_left_out_and_the_study_ends_on_the_others(lab):
    """It ended all nodes, and those that were well kept the clocks that they had."""
    job = lab.submit(sweep(repeats=60), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)

    lab.on("n3", "pkill -KILL -x raylet")

    assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=60)


def test_a_node_that_is_cut_off_is_left_out_and_the_study_ends_on_the_others(lab):
    job = lab.submit(sweep(repeats=60), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)

    with lab.cut_off("n3"):
        ended = lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")

    assert ended == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=60)
    lab.await_idle(*lab.nodes)


def test_a_node_that_is_cut_off_for_a_minute_leaves_nothing_when_it_returns(lab):
    """Ray has given it up by then, and so may SLURM; its clocks were set when it was cut off."""
    job = lab.submit(sweep(repeats=200), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    lab.until(lambda: any(gpu.startswith("n3:") for gpu in lab.locked()), "a clock of n3 to be set")

    with lab.cut_off("n3"):
        time.sleep(60)
    assert lab.job(job)["JobState"] == "RUNNING", lab.log(job)

    assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=200)
    lab.await_idle(*lab.nodes)


def test_a_node_that_loses_power_is_left_out_and_the_study_ends_on_the_others(lab):
    """Its actor could not be placed anywhere, and each of its trials was given up."""
    job = lab.submit(sweep(repeats=60), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)

    lab.cut_power("n3")

    try:
        assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
        assert_nothing_is_left(lab)
        assert_complete(lab, f"job-{job}", lab.log(job), repeats=60)
    finally:
        lab.give_power("n3")


def test_a_job_whose_first_node_loses_power_is_queued_again_and_goes_on(lab):
    job = lab.submit(sweep(repeats=60), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    before = {each.measurement_id for each in lab.store(f"job-{job}").read()}

    lab.cut_power("n1")

    try:
        lab.await_state(job, "PENDING")
    finally:
        lab.give_power("n1")
    assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert before <= {each.measurement_id for each in lab.store(f"job-{job}").read()}
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=60)


def test_a_job_whose_time_is_up_is_queued_again_and_goes_on_with_the_same_study(lab):
    """Its time is cut to what it has run and a minute, less than the notice that it asks for."""
    job = lab.submit(sweep(repeats=200), "--export ALL,LEAST_LIFE_S=20", "--time 20", *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)
    minutes, _ = map(int, lab.job(job)["RunTime"].split(":")[1:])

    lab.user(f"scontrol update JobId={job} TimeLimit={minutes + 2}")

    lab.await_state(job, "PENDING")
    assert_nothing_is_left(lab)
    before = {each.measurement_id for each in lab.store(f"job-{job}").read()}
    assert 5 <= len(before) < 1000
    assert lab.store(f"job-{job}").read_answer() is not None, lab.log(job)
    lab.on("login", f"scontrol update JobId={job} TimeLimit=20")
    assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert lab.job(job)["Restarts"] == "1"
    assert before <= {each.measurement_id for each in lab.store(f"job-{job}").read()}
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=200)


def test_a_job_that_is_queued_again_from_without_goes_on_with_the_same_study(lab):
    """As an administrator does, and SLURM with a job that gives way to another (preemption)."""
    job = lab.submit(sweep(repeats=60), *ON_ALL)
    lab.await_measurements(f"job-{job}", 5)

    lab.user(f"scontrol requeue {job}")

    lab.await_state(job, "PENDING")
    lab.await_idle(*lab.nodes)
    assert_nothing_is_left(lab)
    before = {each.measurement_id for each in lab.store(f"job-{job}").read()}
    assert lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", lab.log(job)
    assert_nothing_is_left(lab)
    assert before <= {each.measurement_id for each in lab.store(f"job-{job}").read()}
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=60)


def test_a_job_whose_head_finds_its_port_taken_takes_others(lab):
    job = lab.submit(sweep(repeats=2), "--hold", "--nodes 1", "--nodelist n1", "--gpus-per-node 2")
    first = int(lab.user(f"SLURM_JOB_ID={job} . cluster/env.sh; echo $RAY_PORT"))
    other = lab.listen("n1", first)

    lab.user(f"scontrol release {job}")

    ended = lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED")
    other.kill()
    other.wait()
    assert_nothing_is_left(lab)
    assert ended == "COMPLETED", lab.log(job)
    assert_complete(lab, f"job-{job}", lab.log(job), repeats=2)
    head = (lab.home / f"joulelab/.run/{job}/head").read_text()
    assert head.startswith("10.77.0.11:")
    assert not head.endswith(f":{first}")


def test_two_jobs_at_once_each_measure_on_nodes_of_their_own(lab):
    large = lab.submit(sweep(repeats=20), "--nodes 2", "--gpus-per-node 2")
    small = lab.submit(sweep(repeats=20, num_gpus=2), "--nodes 1", "--gpus-per-node 2")

    lab.await_state(large, "RUNNING")
    lab.await_state(small, "RUNNING")

    ended = [lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") for job in (large, small)]
    assert_nothing_is_left(lab)
    assert ended == ["COMPLETED", "COMPLETED"], lab.log(large) + lab.log(small)
    hosts = []
    for job in (large, small):
        assert_complete(lab, f"job-{job}", lab.log(job), repeats=20)
        hosts.append({each.provenance.hostname for each in lab.store(f"job-{job}").read()})
    assert sorted(hosts[0] | hosts[1]) == lab.nodes
    assert not hosts[0] & hosts[1]


def test_two_jobs_on_one_node_share_a_guard_and_the_second_goes_on_when_the_first_ends(lab):
    options = "--exclusive=user --nodes 1 --nodelist n1 --gpus-per-node 1 --cpus-per-task 1"
    stores = "/tmp/first-gpu", "/tmp/second-gpu"
    first, second = (
        lab.submit(f"{sweep(repeats=repeats, num_gpus=1)} --store {store}", options)
        for repeats, store in zip((10, 100), stores, strict=True)
    )
    lab.await_state(first, "COMPLETED", "FAILED", "CANCELLED")
    num_before = lab.num_lines(f"job-{second}")

    ended = [lab.await_state(job, "COMPLETED", "FAILED", "CANCELLED") for job in (first, second)]

    assert_nothing_is_left(lab)
    assert [lab.driver("n1", store).locked_uuids() for store in stores] == [(), ()]
    assert ended == ["COMPLETED", "COMPLETED"], lab.log(first) + lab.log(second)
    assert_complete(lab, f"job-{first}", lab.log(first), repeats=10)
    assert_complete(lab, f"job-{second}", lab.log(second), repeats=100)
    assert num_before < lab.num_lines(f"job-{second}"), "they did not run at the same time"


def test_jobs_of_two_users_on_one_node_know_nothing_of_each_other(lab):
    """Each has a Ray, a token and a guard of its own; ports, folders and sockets do not meet."""
    options = "--oversubscribe --nodes 1 --nodelist n1 --gpus-per-node 1 --cpus-per-task 1"
    seen, stores = (lab, lab.other()), ("/tmp/gpu-of-one", "/tmp/gpu-of-the-other")
    repeats = 60, 10  # the first goes on until the second has measured something beside it
    jobs = [
        user.submit(f"{sweep(repeats=num, num_gpus=1)} --store {store}", options)
        for user, num, store in zip(seen, repeats, stores, strict=True)
    ]
    for user, job in zip(seen, jobs, strict=True):
        user.await_measurements(f"job-{job}", 1)
    assert lab.job(jobs[0])["JobState"] == "RUNNING", lab.log(jobs[0])

    ended = [
        user.await_state(job, "COMPLETED", "FAILED", "CANCELLED")
        for user, job in zip(seen, jobs, strict=True)
    ]

    for user, job, num, store in zip(seen, jobs, repeats, stores, strict=True):
        assert_nothing_is_left(user)
        assert user.driver("n1", store).locked_uuids() == ()
        assert_complete(user, f"job-{job}", user.log(job), repeats=num)
    assert ended == ["COMPLETED", "COMPLETED"]
    with pytest.raises(AssertionError, match="Permission denied"):
        seen[1].user(f"cat {seen[0].home}/joulelab/.run/{jobs[0]}/token")


def test_an_allocation_is_worked_in_from_the_login_node(lab):
    """The login node is no part of the cluster, whose interface answered on the head alone."""
    nodes = "srun --output by-hand.log cluster/ray_node.sh &"
    run = f"cluster/ray_run.sh {sweep(repeats=2, num_gpus=2, study='by-hand')}"

    said = lab.user(f"salloc --nodes 2 --gpus-per-node 2 bash -c '{nodes} {run}' 2>&1")

    lab.await_idle(*lab.nodes)
    assert_nothing_is_left(lab)
    assert_complete(lab, "by-hand", said, repeats=2)
