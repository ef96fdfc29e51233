"""What every test runs under."""

import gc
import os
import shutil
import signal
import sys
import warnings

import pytest
from hypothesis import HealthCheck, settings

# Tiny networks are slower on several threads than on one, far slower where tests share cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell's background ignores SIGINT, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# GPUs of the user's own are no part of the tests.
os.environ["JOULELAB_HARDWARE"] = os.devnull

# Networks run where they run without a GPU, and leave one that is there to its users.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# The same examples on every machine; try others with --hypothesis-profile=default.
# A busy machine is no failure: no example has a deadline.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory):
    """A store of MLflow with its tables and nothing in it, which takes seconds to make."""
    from synthetic_results import header

    from joulelab.tracking.addresses import embedded_uri
    from joulelab.tracking.mlflow_tracker import MlflowTracker

    folder = tmp_path_factory.mktemp("mlflow")
    with warnings.catch_warnings(action="ignore"):  # MLflow's own
        MlflowTracker(embedded_uri(folder)).begin(header(name="made first"))
    return folder / "mlflow.db"


@pytest.fixture
def store_uri(fresh_store, tmp_path):
    """The address of a store of the test's own, ``mlflow.db`` in its folder."""
    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture(scope="module")
def guard_socket():
    """Where a clock guard of the file's own may listen: who measures without one starts the user's,
    which other tests, and the user, may have in use.
    """
    from alone import own_guard_socket

    with own_guard_socket() as path:
        yield path


@pytest.fixture
def heeded():
    """Let SIGINT interrupt, and put back whatever heeded it before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_itemcollected(item):
    """Keep a file's tests in one process, so that they share what the file has made for all.

    Those that need a Ray cluster share one. Groups must be known before xdist reads them.
    """
    name = "Ray" if "cluster" in item.fixturenames else str(item.path)
    item.add_marker(pytest.mark.xdist_group(name))


def pytest_collection_modifyitems(config, items):
    """Where processes share the tests, begin with those that need a cluster.

    They take as long as all others together. Then come files with slow tests: what is begun last
    should soon be over.
    """
    if not hasattr(config, "workerinput"):
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: ("cluster" not in item.fixturenames, item.path not in slow))


def pytest_collection_finish():
    keep_modules_out_of_collections()


def pytest_runtest_teardown(item):
    if len(sys.modules) > getattr(item.config, "num_modules", 0):
        keep_modules_out_of_collections()
        item.config.num_modules = len(sys.modules)


def keep_modules_out_of_collections():
    """Spare the collector what imports have made, millions of objects, each time it is called."""
    gc.collect()
    gc.freeze()
