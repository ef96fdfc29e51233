"""A cluster of three Ray nodes on this machine, shared by the tests of this folder."""

import os
import runpy
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Ray keeps the first token that a process sees, so it is set before anything starts Ray; the
# sockets of Ray and of the guard need short paths, which pytest's are not.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Workers give way to other processes by default, as those of an experiment do not: beside the rest
# of the suite they would starve.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_enable_metrics_collection", "0")  # as the product does
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # as the product does


def pytest_collection_modifyitems(items):
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
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


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    from undrawn import undrawn

    with undrawn():
        yield


@pytest.fixture(scope="session")
def node_tools(short_folder):
    """A folder for tools that the nodes of the cluster find on their PATH."""
    folder = short_folder / "tools"
    folder.mkdir()
    return folder


@pytest.fixture(scope="package")
def cluster(short_folder, node_tools):
    """Three nodes; yields their address and connects this process to them.

    They end with the last test of this folder, since they take a tenth of a core while idle.
    """
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
                # Without what only people look at: it takes a sixth of a core all the time.
                head_node_args={
                    "num_cpus": 2,
                    "object_store_memory": 100 * 2**20,
                    "include_dashboard": False,
                    "include_log_monitor": False,
                    "no_monitor": True,
                },
            )
            for _ in range(2):
                made.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        ray.init(address=made.address, namespace="joulelab", log_to_driver=False)
        yield made.address
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="session")
def guard_socket(short_folder):
    """A clock guard of all tests, which lends to each its own simulated GPUs; actors start it."""
    from guard_fakes import end_guard

    socket = short_folder / "g" / "guard.sock"
    socket.parent.mkdir(mode=0o700)
    yield socket
    end_guard(socket)


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
def run_script(monkeypatch, heeded):
    """Run a script in this process as from the command line; returns its exit code."""

    def run(path, *words):
        monkeypatch.setattr(sys, "argv", [str(path), *words])
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        return ended.value.code

    return run


@pytest.fixture
def study(cluster, tmp_path, guard_socket):
    """Run a study on simulated GPUs of the cluster; returns its summary and its store."""
    return study_in(tmp_path, guard_socket)


@pytest.fixture(scope="module")
def shared_study(cluster, tmp_path_factory, guard_socket):
    """As ``study``, for one that several tests look at."""
    return study_in(tmp_path_factory.mktemp("shared"), guard_socket)


def study_in(folder, guard_socket):
    from joulelab.study.run import run_trials

    def run(trials, *, conclude=None, **options):
        workloads = {trial.configuration.workload for trial in trials}
        summary = run_trials(
            trials, on_simulated(folder, guard_socket, workloads, **options), conclude
        )
        return summary, results_in(folder)

    return run


@pytest.fixture
def search(cluster, tmp_path, guard_socket):
    """Run a search on simulated GPUs of the cluster; returns its summary and its store."""
    return search_in(tmp_path, guard_socket)


@pytest.fixture(scope="module")
def shared_search(cluster, tmp_path_factory, guard_socket):
    """As ``search``, for one that several tests go on with; returns also its folder."""
    folder = tmp_path_factory.mktemp("shared")
    return folder, search_in(folder, guard_socket)


def search_in(folder, guard_socket):
    from joulelab.study.run import run_asked
    from joulelab.study.search_queue import Search

    asked = {"budget", "sentinel", "score", "follow"}  # others are options of the cluster

    def run(strategy, *, conclude=None, **options):
        how = {name: options.pop(name) for name in asked & options.keys()}
        search = Search(study="test", strategy=strategy, **how)
        sentinel = search.sentinel
        workloads = () if sentinel is None else {sentinel.configuration.workload}
        setup = on_simulated(folder, guard_socket, workloads, **options)
        summary = run_asked(search, setup, conclude)
        return summary, results_in(folder)

    return run


def on_simulated(
    folder,
    guard_socket,
    workloads=(),
    *,
    gpu="h200_sxm",
    num_gpus=1,
    sites=None,
    on_event=lambda event: None,
    **options,
):
    """Return what a study is carried out with; further options are those of the laboratory."""
    from actor_fixtures import QUICK

    from joulelab_actors.laboratory import Laboratory
    from joulelab_actors.placement import simulated_sites

    lab = Laboratory(
        **{"procedure": QUICK, "tracking_uri": "none", "guard_socket": guard_socket} | options
    )
    return lab.setup(
        sites or simulated_sites(gpu, num_gpus, str(folder / "driver")),
        folder / "results",
        workloads,
        settings=None,
        on_event=on_event,
    )


def results_in(folder):
    from joulelab.tracking.store import ResultStore

    return ResultStore(folder / "results")
