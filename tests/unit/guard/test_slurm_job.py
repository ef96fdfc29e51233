"""Whether SLURM would end a clock guard with the job, as doctors and studies say it."""

import os

import pytest

from joulelab.cli.checks import who_guards
from joulelab.devices.simulated import fleet
from joulelab.guard import inquiry
from joulelab.guard.inquiry import guard_outlives_job, outlives_job
from joulelab.study import gpu as study_gpu
from joulelab.study.lab import Lab

INSIDE = "0::/system.slice/slurmstepd.scope/job_77/step_0/user\n"
OUTSIDE = "0::/system.slice/joulelab-guard.service\n"


@pytest.fixture
def cgroup_of(tmp_path, monkeypatch):
    """This process is in job 77, with a ``/proc`` of its own that says where processes are."""
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setattr(inquiry, "_PROC", tmp_path / "proc")

    def put(who, cgroup):
        folder = tmp_path / "proc" / who
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(cgroup)

    return put


@pytest.mark.parametrize(
    ("cgroup", "outlives"),
    [
        (INSIDE, False),
        ("1:memory:/slurm/uid_1000/job_77/step_batch", False),
        ("0::/system.slice/slurmstepd.scope/job_778/step_0", True),
        (OUTSIDE, True),
    ],
)
def test_a_guard_outlives_the_job_outside_of_its_cgroup(cgroup, outlives, tmp_path, cgroup_of):
    cgroup_of("7", cgroup)

    assert outlives_job(7, tmp_path / "socket") is outlives


@pytest.mark.parametrize(("ours", "outlives"), [(True, False), (False, True)])
def test_where_other_users_processes_are_hidden_root_s_guard_outlives_the_job(
    ours, outlives, tmp_path, cgroup_of, monkeypatch
):
    socket = tmp_path / "socket"
    socket.touch()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid if ours else uid + 1)

    assert outlives_job(7, socket) is outlives


def test_outside_of_a_job_no_job_ends_a_guard(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    assert outlives_job(None, tmp_path / "socket") is None
    assert guard_outlives_job(tmp_path / "socket")


@pytest.mark.parametrize(
    ("cgroup", "status", "says"),
    [(INSIDE, "warn", "ends with this SLURM job"), (OUTSIDE, "ok", "outlives this SLURM job")],
)
def test_a_doctor_in_a_job_says_whether_clocks_survive_its_killing(
    cgroup, status, says, tmp_path, cgroup_of
):
    """It named the guard alone; only that of the cluster told this."""
    cgroup_of("self", cgroup)

    found = who_guards(tmp_path / "socket")

    assert found[0] == status
    assert says in found[1]
    assert ("joulelab-guard.service" in found[2]) is (status == "warn")


@pytest.mark.parametrize(
    ("cgroup", "options", "warned"),
    [
        (INSIDE, {}, True),
        (INSIDE, {"observe_only": True}, False),
        (OUTSIDE, {}, False),
    ],
)
def test_a_study_warns_once_of_a_guard_that_ends_with_the_job(
    *, cgroup, options, warned, tmp_path, cgroup_of, monkeypatch, capsys
):
    monkeypatch.setattr(study_gpu, "default_socket_path", lambda _: tmp_path / "socket")
    cgroup_of("self", cgroup)
    store = str(tmp_path / "driver")
    fleet("h200_sxm", 2, store)
    results = tmp_path / "results"
    lab = Lab(device="simulated", num_gpus=2, store=store, results_dir=results, **options)

    with lab.open():
        pass

    told = capsys.readouterr().err
    assert told.count("SLURM may kill it with the job, and clocks stay set") == warned
