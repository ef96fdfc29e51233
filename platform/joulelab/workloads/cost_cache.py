"""Costs kept on disk, so that a process that only wants a cost need not import torch.

An entry is found by a digest of all that the cost depends on: the workload and its knobs, the
source of everything that builds and traces networks, and the versions of the libraries that
hold them. A change of any of them makes a new entry; old ones are never read again.
"""

import fcntl
import inspect
import logging
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from json import dumps, loads
from pathlib import Path
from typing import Any

import joulelab
from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.workloads.base import Workload

_SOURCES = ("core/cost.py", "estimator/*.py", "estimator/models/*.py", "workloads/*.py")
_PACKAGES = ("diffusers", "torch", "torchao", "torchvision", "transformers", "ultralytics")

_logger = logging.getLogger(__name__)


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
    cost = _read(path)
    if cost is not None:
        return cost
    with _locked(path):
        cost = _read(path)
        if cost is None:
            cost = workload.cost()
            _write(path, cost)
    return cost


def default_folder() -> Path:
    """Return the folder of the XDG base directory specification for this cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "joulelab" / "costs"


def cost_key(workload: Workload[Any]) -> str:
    """Return the digest under which the cost of ``workload`` is kept."""
    cls = type(workload)
    package = Path(joulelab.__file__).parent
    sources = {path for pattern in _SOURCES for path in package.glob(pattern)}
    sources.add(Path(inspect.getfile(cls)))  # a workload from elsewhere
    identity = {
        "workload": f"{cls.__module__}:{cls.__qualname__}",
        "knobs": asdict(workload.settings),
        "versions": {name: _version(name) for name in _PACKAGES},
        "sources": [sha256(path.read_bytes()).hexdigest() for path in sorted(sources)],
    }
    return sha256(dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


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
    kernels = tuple(KernelCost(**kernel) for kernel in fields["kernels"])
    return PhaseCost(**{**fields, "kernels": kernels})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _read(path: Path) -> WorkloadCost | None:
    try:
        return cost_from_json(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _logger.warning("Counting a cost anew: %s cannot be read (%s).", path, error)
        return None


def _write(path: Path, cost: WorkloadCost) -> None:
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(cost_to_json(cost))
        Path(file.name).replace(path)
    except OSError as error:
        _logger.warning("A cost is not kept: %s cannot be written (%s).", path, error)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold a lock that dies with its process; do without where files cannot be locked."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError:
        yield
        return
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
