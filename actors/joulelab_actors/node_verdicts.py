"""What the facts of a node mean for a study: good, doubtful, or in its way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joulelab.analysis.quantities import PLUS_MINUS, counted
from joulelab.core.check import Verdict
from joulelab.devices.nvml_library import HOW_TO_GET_PERMISSION
from joulelab.tracking.durable import LEAST_FREE_B
from joulelab_actors.node_facts import FolderFacts, GpuFacts, GuardFacts, NodeFacts

MOST_SKEW_S = 1.0
"""Measurements of several nodes are put in order by when they began."""
NO_SPACE_B = 10**8
_SAME_CODE = "Install the same version on every node, best in one environment that all see."


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How far the system clock of a node is ahead of the driver's, and how well that is known."""

    ahead_s: float
    u_s: float


def gpu_verdict(node: NodeFacts, products: Sequence[str]) -> Verdict:
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


def sensor_verdict(node: NodeFacts) -> Verdict:
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


def clock_verdict(node: NodeFacts) -> Verdict:
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


def guard_verdict(guard: GuardFacts) -> Verdict:
    """Judge the clock guard of a node."""
    if guard.trouble:
        return "fail", guard.trouble, "A study that sets clocks needs a guard: see its log there."
    found = "starts when needed" if guard.pid is None else f"guard {guard.pid} answers"
    if guard.outlives_job is None:
        return "ok", f"{found}; no SLURM job ends it", ""
    if guard.outlives_job:
        return "ok", f"{found}; outlives the job", ""
    advice = (
        "SLURM may kill it with the job, and clocks stay set: have the site run "
        "joulelab-guard.service, or cluster/epilog_restore_clocks.sh."
    )
    return "warn", f"{found}; ends with the job", advice


def version_verdict(
    node: NodeFacts, ours: Mapping[str, str | None], drivers: Sequence[str]
) -> Verdict:
    """Judge the versions on a node beside ``ours``, which start the study.

    Args:
        node: The node.
        ours: Versions of this process.
        drivers: Every version of the GPU driver in the cluster.
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


def skew_verdict(skew: Skew | None) -> Verdict:
    """Judge how far a node's system clock is from the driver's."""
    if skew is None:
        return "warn", "unknown", "It did not answer in time: is the node overloaded?"
    found = f"{skew.ahead_s:+.3f} {PLUS_MINUS} {skew.u_s:.3f} s"
    if abs(skew.ahead_s) - skew.u_s > MOST_SKEW_S:
        advice = "Have the site run chrony or ntpd: results of several nodes would be out of order."
        return "warn", found, advice
    return "ok", found, ""


def folder_verdict(folder: FolderFacts) -> Verdict:
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
