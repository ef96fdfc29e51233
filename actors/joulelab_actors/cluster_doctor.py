"""``joulelab doctor --cluster``: whether a study would run on every node of a Ray cluster."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import ray

from joulelab.analysis.quantities import PLUS_MINUS, counted
from joulelab.core.check import Check, CheckOutcome, run_checks
from joulelab.devices.choice import check_backend
from joulelab.devices.nvml_library import HOW_TO_GET_PERMISSION
from joulelab.guard.inquiry import HOW_TO_OUTLIVE
from joulelab.study.progress import announced
from joulelab.tracking.durable import LEAST_FREE_B, check_folder, for_now
from joulelab_actors.node_facts import (
    FolderFacts,
    GpuFacts,
    GuardFacts,
    NodeFacts,
    facts_of_node,
    unix_time_s,
    versions_here,
)
from joulelab_actors.placement import alive_nodes, call_on
from joulelab_actors.session import connected, failure_in_words, require_cluster

MOST_SKEW_S = 1.0
"""Measurements of several nodes are put in order by when they began."""
NO_SPACE_B = 10**8
_SAME_CODE = "Install the same version on every node, best in one environment that all see."


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How far the system clock of a node is ahead of the driver's, and how well that is known."""

    ahead_s: float
    u_s: float


def gpu_verdict(node: NodeFacts, products: Sequence[str]) -> CheckOutcome:
    """Judge the GPUs of a node, of which the cluster has those ``products``."""
    if not node.gpus:
        if products:
            return "warn", "none", f"Studies leave it out. {node.gpu_trouble}".strip()
        return "fail", "none", f"No node of the cluster has a GPU. {node.gpu_trouble}".strip()
    found = _gpus_in_words(node.gpus)
    broken = [
        f"{gpu.uuid}: {gpu.trouble or gpu.owed}" for gpu in node.gpus if gpu.trouble or gpu.owed
    ]
    if broken:
        advice = (
            "Mend it, or `joulelab guard --restore` there if a study that has ended left it set."
        )
        return "fail", "; ".join((found, *broken)), advice
    if len(products) > 1:
        advice = (
            f"The cluster has {', '.join(products)}: a sweep measures each by itself, and other "
            "studies take one, with --gpu-product."
        )
        return "warn", found, advice
    return "ok", found, ""


def sensor_verdict(node: NodeFacts) -> CheckOutcome:
    """Judge what can be read of the GPUs of a node."""
    usable = [gpu for gpu in node.gpus if not gpu.trouble]
    if not usable:
        return "ok", "-", ""
    reads = {each for gpu in usable for each in gpu.reads}
    lacks = {each for gpu in usable for each in gpu.lacks}
    found = ", ".join(sorted(reads - lacks)) or "none"
    if lacks:
        found += f"; not {', '.join(sorted(lacks))}"
    if lacks & {"power", "state"}:
        return "fail", found, "Nothing can be measured without power and state: see the driver."
    if "energy" in lacks:
        return "warn", found, "Energy comes from sampled power: use windows of 10 s and more."
    return "ok", found, ""


def clock_verdict(node: NodeFacts) -> CheckOutcome:
    """Judge whether clocks of the GPUs of a node may be set."""
    answers = {gpu.can_set_clocks for gpu in node.gpus if not gpu.trouble}
    if not answers:
        return "ok", "-", ""
    if answers == {True}:
        return "ok", "may be set", ""
    if node.guard.is_root and not node.guard.trouble:
        return "ok", "may be set through the guard", ""
    if False in answers:
        return "warn", "may not be set", HOW_TO_GET_PERMISSION
    return "warn", "only a try would tell", "`joulelab guard` as root on the node makes it sure."


def guard_verdict(guard: GuardFacts) -> CheckOutcome:
    """Judge the clock guard of a node."""
    if guard.trouble:
        return "fail", guard.trouble, "A study that sets clocks needs a guard: see its log there."
    found = "starts when needed" if guard.pid is None else f"guard {guard.pid} answers"
    if guard.outlives_job is None:
        return "ok", f"{found}; no SLURM job ends it", ""
    if guard.outlives_job:
        return "ok", f"{found}; outlives the job", ""
    return "warn", f"{found}; ends with the job", HOW_TO_OUTLIVE


def version_verdict(
    node: NodeFacts, ours: Mapping[str, str | None], drivers: Sequence[str]
) -> CheckOutcome:
    """Judge the versions on a node beside ``ours``, which start the study.

    ``drivers`` is every version of the GPU driver in the cluster.
    """
    usable = [gpu for gpu in node.gpus if gpu.is_hardware and not gpu.trouble]
    shown = node.versions | ({"driver": usable[0].driver_version} if usable else {})
    found = ", ".join(f"{name} {number or 'absent'}" for name, number in shown.items())
    differ = [name for name, number in ours.items() if node.versions.get(name) != number]
    if {"joulelab", "code"} & set(differ):
        return "fail", found, f"Its joulelab is not the one that starts studies. {_SAME_CODE}"
    if usable and node.versions.get("torch") is None:
        return "fail", found, "Workloads need PyTorch, built for CUDA, on every node with a GPU."
    if differ:
        return "warn", found, f"{', '.join(differ)} differ from where studies start. {_SAME_CODE}"
    if usable and len(drivers) > 1:
        advice = f"GPU drivers {', '.join(drivers)} are in the cluster: compare boards with care."
        return "warn", found, advice
    return "ok", found, ""


def skew_verdict(skew: Skew | None) -> CheckOutcome:
    """Judge how far a node's system clock is from the driver's."""
    if skew is None:
        return "warn", "unknown", "It did not answer in time: is the node overloaded?"
    found = f"{skew.ahead_s:+.3f} {PLUS_MINUS} {skew.u_s:.3f} s"
    if abs(skew.ahead_s) - skew.u_s > MOST_SKEW_S:
        advice = "Have the site run chrony or ntpd: results of several nodes would be out of order."
        return "warn", found, advice
    return "ok", found, ""


def folder_verdict(folder: FolderFacts) -> CheckOutcome:
    """Judge the results folder as a node sees it."""
    if folder.trouble:
        return "fail", folder.trouble, "Name a folder that every node can write: --results-dir."
    found = (
        f"{folder.path}, {folder.kind or 'unknown file system'}, {folder.free_b / 1e9:.0f} GB free"
    )
    if folder.free_b < NO_SPACE_B:
        return "fail", found, "Make room, or name another folder with --results-dir."
    if not folder.sees_mark:
        advice = (
            "It is not the driver's: a study that is killed would not see what was measured here. "
            "Name a folder that every node sees: --results-dir."
        )
        return "fail", found, advice
    if not folder.has_locks:
        return "warn", f"{found}, no locks", "See yourself that one driver only uses a study."
    if folder.free_b < LEAST_FREE_B:
        return "warn", found, "Make room, or name another folder with --results-dir."
    return "ok", found, ""


def _gpus_in_words(gpus: Sequence[GpuFacts]) -> str:
    kinds = sorted({f"{gpu.name or gpu.uuid} through {gpu.backend}" for gpu in gpus})
    return f"{counted(len(gpus), 'GPU')}: {', '.join(kinds)}"


_PATIENCE_S = 120.0
_CLOCK_PATIENCE_S = 5.0
_CLOCK_LOOKS = 5
T = TypeVar("T")
_Node = dict[str, Any]


def check_cluster(device: str, store: str | None, results_dir: Path) -> dict[str, list[Check]]:
    """Look at every node of the cluster from a process there that takes no resource.

    ``device`` is the registry name of the device class, or ``"auto"`` for the best of each node;
    ``store`` the folder of state or recordings, for devices that are not hardware; ``results_dir``
    is as every node should see it. Returns what was found by the node: its hostname, with the
    beginning of Ray's id where several have the same. Raises ConfigError if no cluster is named, or
    the driver cannot write results; DeviceError if the cluster does not answer.
    """
    check_backend(device)
    require_cluster("--cluster")
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
) -> dict[str, Callable[[], CheckOutcome]]:
    if isinstance(facts, str):
        advice = "Is joulelab installed there, and the node well? `ray list nodes` tells its state."
        return {"GPUs": lambda: ("fail", f"did not answer: {facts}", advice)}
    gpus = [gpu for each in answered for gpu in each.gpus if not gpu.trouble]
    products = sorted({gpu.name for gpu in gpus})
    drivers = sorted({gpu.driver_version for gpu in gpus if gpu.is_hardware})
    return {
        "GPUs": partial(gpu_verdict, facts, products),
        "sensors": partial(sensor_verdict, facts),
        "clocks": partial(clock_verdict, facts),
        "clock guard": partial(guard_verdict, facts.guard),
        "versions": partial(version_verdict, facts, versions_here(), drivers),
        "system clock": partial(skew_verdict, skew),
        "results": partial(folder_verdict, facts.folder),
    }


def _answer(ref: Any, deadline_s: float) -> NodeFacts | str:
    """Return what a node says, or why it says nothing."""
    try:
        facts: NodeFacts = ray.get(ref, timeout=max(0.0, deadline_s - time.monotonic()))
    except ray.exceptions.GetTimeoutError:
        return f"nothing within {_PATIENCE_S:g} s"
    except ray.exceptions.RayError as error:
        return failure_in_words(error)
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
    path = folder / f".doctor-{uuid4().hex}"
    with for_now(folder):
        path.touch()
        try:
            yield path.name
        finally:
            path.unlink(missing_ok=True)


def _names(nodes: Sequence[_Node]) -> Iterator[str]:
    hosts = [str(node["NodeManagerHostname"]) for node in nodes]
    num = Counter(hosts)
    for host, node in zip(hosts, nodes, strict=True):
        yield host if num[host] == 1 else f"{host} {node['NodeID'][:6]}"
