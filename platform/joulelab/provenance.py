"""Where a result comes from: the one place that asks the machine, git and the scheduler."""

import os
import platform
import socket
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from joulelab.core.measurement import Provenance

UNKNOWN_VERSION = "unknown"
"""Version of a package that is run from its sources without being installed."""


def collect_provenance(*, weights: str | None = None, licence: str | None = None) -> Provenance:
    """Describe this process as the origin of a result that starts now.

    Args:
        weights: ``"random"`` or where a model's weights came from; ``None`` without a model.
        licence: Of what was run, if it is neither this package's nor a permissive one.
    """
    torch = sys.modules.get("torch")
    return Provenance(
        joulelab_version=joulelab_version(),
        git_sha=git_sha(),
        hostname=socket.gethostname(),
        python_version=platform.python_version(),
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        torch_version=None if torch is None else str(torch.__version__),
        slurm_job_id=os.environ.get("SLURM_JOB_ID"),
        ray_job_id=os.environ.get("RAY_JOB_ID"),
        weights=weights,
        licence=licence,
    )


@cache
def joulelab_version() -> str:
    """Return the version of the installed package; ``"unknown"`` if it is not installed."""
    return package_version("joulelab") or UNKNOWN_VERSION


def package_version(name: str) -> str | None:
    """Return the version of an installed package; ``None`` if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def git_sha() -> str | None:
    """Return the commit of the checkout that holds this package; ``None`` outside one.

    ``-dirty`` is appended if tracked files differ from the commit. Asked once per process.
    """
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changes else commit


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
