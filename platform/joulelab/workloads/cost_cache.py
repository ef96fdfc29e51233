"""Costs kept on disk, so that a process that only wants a cost need not import torch.

An entry is found by a digest of all that the cost depends on: the workload and its knobs, the
source of everything that builds and traces networks, and the versions of the libraries that
hold them. A change of any of them makes a new entry; old ones are never read again.
"""

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from json import dumps, loads
from pathlib import Path
from typing import Any

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import (
    digest,
    locked,
    package_versions,
    read_entry,
    source_digests,
    user_folder,
    write_entry,
)

_SOURCES = (
    "core/cost.py",
    "estimator/*.py",
    "estimator/graph/*.py",
    "estimator/tracing/*.py",
    "estimator/models/*.py",
    "workloads/*.py",
)
_PACKAGES = ("diffusers", "torch", "torchao", "torchvision", "transformers", "ultralytics")
_WHAT = "a cost"


def cached_cost(workload: Workload[Any], folder: Path | None = None) -> WorkloadCost:
    """Return ``workload.cost()``, from disk if it was counted before.

    Of several processes that ask for the same cost at once, one counts and the others wait. An
    entry that cannot be read is counted anew; a folder that cannot be written costs only time.

    Args:
        workload: The workload; it need not be prepared.
        folder: Where the entries are; by default the user's cache folder
            (``$XDG_CACHE_HOME/joulelab/costs``, ``~/.cache/joulelab/costs`` if that is unset).
    """
    folder = folder or default_folder()
    path = folder / f"{cost_key(workload)}.json"
    cost = read_entry(path, cost_from_json, what=_WHAT)
    if cost is not None:
        return cost
    with locked(path):
        cost = read_entry(path, cost_from_json, what=_WHAT)
        if cost is None:
            cost = workload.cost()
            write_entry(path, cost_to_json(cost), what=_WHAT)
    return cost


def default_folder() -> Path:
    """Return the folder of the XDG base directory specification for this cache."""
    return user_folder("costs")


def cost_key(workload: Workload[Any]) -> str:
    """Return the digest under which the cost of ``workload`` is kept."""
    cls = type(workload)
    return digest(
        {
            "workload": f"{cls.__module__}:{cls.__qualname__}",
            "knobs": asdict(workload.settings),
            "versions": package_versions(_PACKAGES),
            # the class may come from elsewhere
            "sources": source_digests(_SOURCES, Path(inspect.getfile(cls))),
        }
    )


def cost_to_json(cost: WorkloadCost) -> str:
    """Return ``cost`` as JSON text; floats keep every bit."""
    return dumps(asdict(cost))


def cost_from_json(text: str) -> WorkloadCost:
    """Return the cost that :func:`cost_to_json` wrote.

    Raises:
        ValueError: If ``text`` is no such cost.
    """
    try:
        fields = loads(text)
        phases = tuple(_phase(phase) for phase in fields.pop("phases"))
        return WorkloadCost(phases=phases, **fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a workload's cost: {error!r}") from error


def _phase(fields: Mapping[str, Any]) -> PhaseCost:
    kernels = tuple(_kernel(kernel) for kernel in fields["kernels"])
    return PhaseCost(**{**fields, "kernels": kernels})


def _kernel(fields: Mapping[str, Any]) -> KernelCost:
    shape = fields["shape"]
    return KernelCost(**{**fields, "shape": None if shape is None else tuple(shape)})
