"""A cluster of three Ray nodes on this machine, shared by the tests of this folder."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Ray keeps the first token that a process sees, so it is set before anything starts Ray; the
# sockets of Ray and of the guard need short paths, which pytest's are not.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ray)
            # Ray's own: unclosed sockets and files, at whatever moment they are collected.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def short_folder():
    folder = Path(tempfile.mkdtemp(prefix="jl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def node_tools(short_folder):
    """A folder for tools that the nodes of the cluster find on their PATH."""
    folder = short_folder / "tools"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def cluster(short_folder, node_tools):
    """Three nodes; yields their address and connects this process to them."""
    import ray
    from fake_tools import H200_SMI
    from ray.cluster_utils import Cluster

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("RAY_TMPDIR", str(short_folder))
        patch.setenv("PATH", str(node_tools), prepend=os.pathsep)
        # Of GPUs, nodes may find that of the stand-in for nvidia-smi alone. Other tests of this
        # process may find none: they would be taken to be pinned to it.
        with pytest.MonkeyPatch.context() as of_nodes:
            of_nodes.setenv("CUDA_VISIBLE_DEVICES", H200_SMI["uuid"])
            made = Cluster(
                initialize_head=True,
                head_node_args={"num_cpus": 2, "object_store_memory": 100 * 2**20},
            )
            for _ in range(2):
                made.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        ray.init(address=made.address, namespace="joulelab", log_to_driver=False)
        yield made.address
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def guard_socket(short_folder):
    """A clock guard of the test's own, which the test's actors start when they need it."""
    with guard_in(short_folder) as socket:
        yield socket


@contextmanager
def guard_in(short_folder):
    from joulelab.errors import GuardError
    from joulelab.guard import GuardClient

    folder = Path(tempfile.mkdtemp(prefix="g", dir=short_folder))
    yield folder / "guard.sock"
    with suppress(GuardError):  # none answers if it was never needed
        GuardClient(folder / "guard.sock", start=False).stop()


@pytest.fixture
def kill_driver(cluster, tmp_path, guard_socket):
    """Run a script as a driver of its own, and kill it once it has told of ten trials."""

    def run(script, **variables):
        paths = os.pathsep.join(str(ROOT / part) for part in ("platform", "actors", "tests"))
        driver = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), str(guard_socket)],
            env=os.environ | {"RAY_ADDRESS": cluster, "PYTHONPATH": paths} | variables,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(10):
            while driver.stdout.readline().strip() != "TrialMeasured":
                assert driver.poll() is None
        driver.send_signal(signal.SIGKILL)
        driver.communicate()

    return run


@pytest.fixture
def study(cluster, tmp_path, guard_socket):
    """Run a study on simulated GPUs of the cluster; returns its summary and its store."""
    return study_in(tmp_path, guard_socket)


@pytest.fixture(scope="module")
def shared_study(cluster, tmp_path_factory, short_folder):
    """As ``study``, for one that several tests look at."""
    with guard_in(short_folder) as socket:
        yield study_in(tmp_path_factory.mktemp("shared"), socket)


def study_in(folder, guard_socket):
    from actor_fixtures import QUICK

    from joulelab.tracking.store import ResultStore
    from joulelab_actors.placement import simulated_sites
    from joulelab_actors.study import ClusterStudy, run_study

    def run(trials, *, num_gpus=3, gpu="h200_sxm", procedure=QUICK, conclude=None, **options):
        sites = simulated_sites(gpu, num_gpus, str(folder / "driver"))
        cluster = ClusterStudy(
            sites=sites,
            results_dir=folder / "results",
            procedure=procedure,
            guard_socket=guard_socket,
            **options,
        )
        summary = run_study(trials, cluster, conclude)
        return summary, ResultStore(folder / "results")

    return run
