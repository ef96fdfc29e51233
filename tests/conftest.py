"""What every test runs under."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tiny networks are slower on several threads than on one, far slower where tests share cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every machine; try others with --hypothesis-profile=default.
# A busy machine is no failure: no example has a deadline.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


@pytest.fixture
def heeded():
    """Let SIGINT interrupt, also where it is ignored, as in what a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_RAY = Path(__file__).parent / "integration"


def pytest_collection_modifyitems(items):
    """Keep a file's tests in one process, so that they share what the file has made for all.

    Those that start Ray are all in one: they share a cluster.
    """
    for item in items:
        name = "ray" if _RAY in item.path.parents else str(item.path)
        item.add_marker(pytest.mark.xdist_group(name))
