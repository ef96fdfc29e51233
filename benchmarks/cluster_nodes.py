"""A Ray cluster of several nodes, all on this machine, for benchmarks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.cluster_utils import Cluster

from joulelab_actors.session import LEAN, NAMESPACE

_NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
_HEAD = {**_NODE, "include_dashboard": False, "no_monitor": True}


@contextmanager
def nodes(num_nodes: int, runtime_env: dict[str, Any] | None = None) -> Iterator[None]:
    """Hold a cluster of so many nodes and a connection to it for the length of a ``with`` block."""
    os.environ.update(LEAN)
    cluster = Cluster(initialize_head=True, head_node_args=_HEAD)
    try:
        for _ in range(num_nodes - 1):
            cluster.add_node(**_NODE)
        ray.init(
            address=cluster.address,
            namespace=NAMESPACE,
            runtime_env=runtime_env,
            log_to_driver=False,
        )
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
