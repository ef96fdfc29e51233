import subprocess
from datetime import UTC, datetime
from pathlib import Path

from joulelab.provenance import collect_provenance, git_sha


def test_the_start_is_told_in_utc():
    before = datetime.now(UTC)

    started = datetime.fromisoformat(collect_provenance().started_at)

    assert abs((started - before).total_seconds()) < 5
    assert started.utcoffset().total_seconds() == 0


def test_the_commit_is_that_of_the_checkout():
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    git_sha.cache_clear()

    sha = git_sha()

    expected = done.stdout.strip() if done.returncode == 0 else None
    assert (sha and sha.removesuffix("-dirty")) == expected


def test_the_scheduler_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("RAY_JOB_ID", "0a")

    provenance = collect_provenance(weights="random")

    assert provenance.slurm_job_id == "4711"
    assert provenance.ray_job_id == "0a"
    assert provenance.weights == "random"
