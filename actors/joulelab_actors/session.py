"""Connect to a Ray cluster, or start one on this machine for as long as it is needed."""

import logging
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager

import ray

NAMESPACE = "joulelab"
"""All pools share it, so that the name of an actor is a lock on its GPU across the cluster."""

_OBJECT_STORE_B = 128 * 1024 * 1024


@contextmanager
def connected(*, num_cpus: int | None = None) -> Generator[None]:
    """Hold a connection to Ray for the length of a ``with`` block.

    In a Ray job, or where ``RAY_ADDRESS`` says so, it is the cluster's. Elsewhere a Ray is
    started here and ended at the end, with a token of its own, so that nobody else on the
    machine can use it. A connection that exists already is used and left as it is.

    Args:
        num_cpus: CPUs of a Ray that is started here; ``None`` for those of the machine.
    """
    if ray.is_initialized():
        yield
        return
    try:
        if os.environ.get("RAY_ADDRESS"):
            _join()
        else:
            _start_local(num_cpus)
        yield
    finally:
        ray.shutdown()


def _join() -> None:
    ray.init(
        address="auto", namespace=NAMESPACE, log_to_driver=False, logging_level=logging.WARNING
    )


def _start_local(num_cpus: int | None) -> None:
    # Ray would announce at every start that it uses a token.
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's workers give way to every other process of the machine (niceness 15); a program that
    # is measured must not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Without a token in the environment Ray writes a world-readable one into the home folder,
    # which then turns authentication on for clusters that were never told of it. Ray keeps the
    # first token for the life of the process, and so does the environment.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray.init(
        address="local",
        namespace=NAMESPACE,
        num_cpus=num_cpus,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.WARNING,
        object_store_memory=_OBJECT_STORE_B,
    )
