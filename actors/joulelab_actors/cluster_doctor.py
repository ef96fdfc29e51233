"""``joulelab doctor --cluster``: whether a study would run on every node of a Ray cluster."""

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import ray

from joulelab.core.check import Check, Verdict, run_checks
from joulelab.devices.choice import check_backend
from joulelab.errors import ConfigError, one_line
from joulelab.study.progress import announced
from joulelab.tracking.durable import check_folder
from joulelab_actors import node_verdicts
from joulelab_actors.node_facts import NodeFacts, facts_of_node, unix_time_s, versions_here
from joulelab_actors.node_verdicts import Skew
from joulelab_actors.placement import alive_nodes, call_on
from joulelab_actors.session import connected

_PATIENCE_S = 120.0
_CLOCK_PATIENCE_S = 5.0
_CLOCK_LOOKS = 5
T = TypeVar("T")
_Node = dict[str, Any]


def check_cluster(device: str, store: str | None, results_dir: Path) -> dict[str, list[Check]]:
    """Look at every node of the cluster from a process there that takes no resource.

    Args:
        device: Registry name of the device class, or ``"auto"`` for the best of each node.
        store: Folder of state or recordings, for devices that are not hardware.
        results_dir: Results folder, as every node should see it.

    Returns:
        What was found, by the node: its hostname, with the beginning of Ray's id where several
        have the same.

    Raises:
        ConfigError: If no cluster is named, or the driver cannot write results.
        DeviceError: If the cluster does not answer.
    """
    check_backend(device)
    if not (ray.is_initialized() or os.environ.get("RAY_ADDRESS")):
        raise ConfigError(
            "--cluster looks at the Ray cluster that RAY_ADDRESS names, which is not set; start "
            "one (cluster/ray_node.sh) and run `. cluster/env.sh`, or leave --cluster out."
        )
    folder = results_dir.expanduser().absolute()
    with announced("Asking every node"), connected(), _marked(folder) as mark:
        nodes, looked_at = alive_nodes(), (device, store, folder, mark)
        refs = [call_on(node["NodeID"], facts_of_node, looked_at) for node in nodes]
        deadline_s = time.monotonic() + _PATIENCE_S
        found = [_answer(ref, deadline_s) for ref in refs]
        skews = [
            _skew(node) if isinstance(facts, NodeFacts) else None
            for node, facts in zip(nodes, found, strict=True)
        ]
    answered = [facts for facts in found if isinstance(facts, NodeFacts)]
    names = list(_names(nodes))
    return {
        name: list(run_checks(_checks(facts, skew, answered)))
        for name, facts, skew in zip(names, found, skews, strict=True)
    }


def _checks(
    facts: NodeFacts | str, skew: Skew | None, answered: Sequence[NodeFacts]
) -> dict[str, Callable[[], Verdict]]:
    if isinstance(facts, str):
        advice = "Is joulelab installed there, and the node well? `ray list nodes` tells its state."
        return {"GPUs": lambda: ("fail", f"did not answer: {facts}", advice)}
    gpus = [gpu for each in answered for gpu in each.gpus if not gpu.trouble]
    products = sorted({gpu.name for gpu in gpus})
    drivers = sorted({gpu.driver_version for gpu in gpus if gpu.is_hardware})
    return {
        "GPUs": partial(node_verdicts.gpu_verdict, facts, products),
        "sensors": partial(node_verdicts.sensor_verdict, facts),
        "clocks": partial(node_verdicts.clock_verdict, facts),
        "clock guard": partial(node_verdicts.guard_verdict, facts.guard),
        "versions": partial(node_verdicts.version_verdict, facts, versions_here(), drivers),
        "system clock": partial(node_verdicts.skew_verdict, skew),
        "results": partial(node_verdicts.folder_verdict, facts.folder),
    }


def _answer(ref: Any, deadline_s: float) -> NodeFacts | str:
    """Return what a node says, or why it says nothing."""
    try:
        facts: NodeFacts = ray.get(ref, timeout=max(0.0, deadline_s - time.monotonic()))
    except ray.exceptions.RayTaskError as error:
        return one_line(str(error.cause or error))
    except ray.exceptions.GetTimeoutError:
        return f"nothing within {_PATIENCE_S:g} s"
    except ray.exceptions.RayError as error:
        return one_line(str(error).strip().partition("\n")[0])
    return facts


def _skew(node: _Node) -> Skew | None:
    """Return how far a node's clock is ahead, by the quickest of several questions."""
    looks = []
    for _ in range(_CLOCK_LOOKS):
        asked_s = time.time()
        with suppress(ray.exceptions.RayError):
            there_s = float(
                ray.get(call_on(node["NodeID"], unix_time_s, ()), timeout=_CLOCK_PATIENCE_S)
            )
            took_s = time.time() - asked_s
            looks.append(Skew(ahead_s=there_s - asked_s - took_s / 2, u_s=took_s / 2))
    return min(looks, key=lambda look: look.u_s, default=None)


@contextmanager
def _marked(folder: Path) -> Generator[str]:
    """Put a file into ``folder`` for the ``with`` block, and yield its name."""
    check_folder(folder)
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".doctor-{uuid4().hex}"
    path.touch()
    try:
        yield path.name
    finally:
        path.unlink(missing_ok=True)
        for each in made:
            with suppress(OSError):  # somebody uses it by now
                each.rmdir()


def _names(nodes: Sequence[_Node]) -> Iterator[str]:
    hosts = [str(node["NodeManagerHostname"]) for node in nodes]
    num = Counter(hosts)
    for host, node in zip(hosts, nodes, strict=True):
        yield host if num[host] == 1 else f"{host} {node['NodeID'][:6]}"
