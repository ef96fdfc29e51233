"""Results kept on disk, each under a digest of all that it depends on; costs among them.

A change of anything that went into the digest makes a new entry; old ones are never read again.
Costs are kept so that a process that only wants one need not import torch: theirs is a digest of
the workload and its knobs, the source of everything that builds and traces networks, and the
versions of the libraries that hold them. Where a machine has many simulated GPUs, costs are traced
in a process of their own: one that has traced keeps PyTorch, 200 MB of memory, while it lives.
"""

import fcntl
import inspect
import logging
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from json import dumps, loads
from pathlib import Path
from typing import Any, Generic, TypeVar

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.workloads.base import Workload

T = TypeVar("T")

_SOURCES = (
    "core/cost.py",
    "core/number_format.py",
    "tracing/*.py",
    "workloads/*.py",
)
_PACKAGES = ("diffusers", "torch", "torchao", "torchvision", "transformers", "ultralytics")

_logger = logging.getLogger(__name__)


def user_folder(kind: str) -> Path:
    """Return the folder of the XDG base directory specification for entries of ``kind``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "joulelab" / kind


def digest(identity: object) -> str:
    """Return 32 hex digits that name ``identity``, made of what JSON can hold."""
    return sha256(dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def source_digests(patterns: Iterable[str], *others: Path) -> list[str]:
    """Return digests of the files of this package that match ``patterns``, and of ``others``."""
    package = Path(__file__).parents[1]
    sources = {path for pattern in patterns for path in package.glob(pattern)}
    return [sha256(path.read_bytes()).hexdigest() for path in sorted(sources | set(others))]


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed packages ``names``."""
    return {name: _version(name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[T]):
    """How values are kept, called ``what`` in the log; ``decode`` raises ValueError or its like."""

    what: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def read_entry(path: Path, form: Form[T]) -> T | None:
    """Return the entry at ``path``; ``None`` if there is none that can be read."""
    try:
        return form.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _logger.warning("Making %s anew: %s cannot be read (%r).", form.what, path, error)
        return None


def write_entry(path: Path, value: T, form: Form[T]) -> None:
    """Make ``path`` hold ``value`` at once, whole; a folder that cannot be written is logged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(form.encode(value))
        Path(file.name).replace(path)
    except OSError as error:
        _logger.warning("%s is not kept: %s cannot be written (%s).", form.what, path, error)


def made_once(path: Path, make: Callable[[], T], form: Form[T]) -> T:
    """Return the entry at ``path``, else ``make`` and keep it, while other processes wait."""
    value = read_entry(path, form)
    if value is not None:
        return value
    with locked(path):
        value = read_entry(path, form)
        if value is None:
            value = make()
            write_entry(path, value, form)
    return value


@contextmanager
def locked(path: Path) -> Generator[None]:
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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def cached_cost(
    workload: Workload[Any],
    folder: Path | None = None,
    *,
    count: Callable[[], WorkloadCost] | None = None,
) -> WorkloadCost:
    """Return ``workload.cost()``, from disk if it was counted before; it need not be prepared.

    Entries are in ``folder``, by default the user's cache folder. ``count`` counts in its place;
    what its settings do not describe is counted anew.
    """
    if not workload.is_defined_by_settings:
        return workload.cost()
    path = (folder or user_folder("costs")) / f"{cost_key(workload)}.json"
    return made_once(path, count or workload.cost, _COST)


def cost_key(workload: Workload[Any]) -> str:
    """Return the digest under which the cost of ``workload`` is kept."""
    return digest({**identity_of(workload, _SOURCES), "versions": package_versions(_PACKAGES)})


def identity_of(workload: Workload[Any], sources: Iterable[str]) -> dict[str, object]:
    """Return what a trace of ``workload`` depends on, besides libraries; JSON can hold it.

    That is its class, its knobs, the files of this package that match ``sources``, and geometries
    in folders that knobs name.
    """
    kind, knobs = type(workload), asdict(workload.settings)
    named = [each for each in (knobs.get("model"), knobs.get("weights")) if isinstance(each, str)]
    geometries = [
        path
        for folder in filter(None, named)
        for pattern in ("config.json", "*/config.json")
        for path in Path(folder).glob(pattern)
    ]
    return {
        "workload": f"{kind.__module__}:{kind.__qualname__}",
        "knobs": knobs,
        # the class may come from elsewhere
        "sources": source_digests(sources, Path(inspect.getfile(kind)), *geometries),
    }


def cost_to_json(cost: WorkloadCost) -> bytes:
    """Return ``cost`` as JSON; floats keep every bit."""
    return dumps(asdict(cost)).encode()


def cost_from_json(text: bytes) -> WorkloadCost:
    """Return the cost that :func:`cost_to_json` wrote."""
    cost = loads(text)
    for phase in cost["phases"]:
        for kernel in phase["kernels"]:
            kernel["shape"] = kernel["shape"] and tuple(kernel["shape"])
        phase["kernels"] = tuple(KernelCost(**kernel) for kernel in phase["kernels"])
    cost["phases"] = tuple(PhaseCost(**phase) for phase in cost["phases"])
    return WorkloadCost(**cost)


_COST = Form(what="a cost", encode=cost_to_json, decode=cost_from_json)


MOST_TRACERS = 2
"""Processes of a user on a machine that may keep PyTorch for costs alone."""

_TRACE = """
import json, pickle, sys
sys.path[:] = json.loads(sys.argv[1])
kind, settings = pickle.load(sys.stdin.buffer)
from joulelab.workloads.disk_cache import cost_to_json
sys.stdout.buffer.write(b"\\n" + cost_to_json(kind(settings).cost()))
"""


def lean_cost(workload: Workload[Any]) -> WorkloadCost:
    """Return :func:`cached_cost`, traced by a process that ends then where enough keep PyTorch."""
    return cached_cost(workload, count=lambda: _count(workload))


def _count(workload: Workload[Any]) -> WorkloadCost:
    folder = user_folder("costs")
    if "torch" in sys.modules or _has_place(folder):
        return workload.cost()
    with locked(folder / "tracer"):
        found = _traced_apart(workload)
    return workload.cost() if found is None else found


@cache
def _has_place(folder: Path) -> bool:
    """Whether this process is one of those that may keep PyTorch; it is for as long as it lives."""
    for number in range(MOST_TRACERS):
        try:
            file = os.open(folder / f"tracer-{number}.lock", os.O_WRONLY | os.O_CREAT)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        except OSError:  # no file, or no lock, can be made there
            return True
        else:
            return True
    return False


def _traced_apart(workload: Workload[Any]) -> WorkloadCost | None:
    """Return the cost as another process finds it; ``None`` if it cannot say."""
    command = [sys.executable, "-c", _TRACE, dumps(sys.path)]
    try:
        asked = pickle.dumps((type(workload), workload.settings))
        done = subprocess.run(command, input=asked, capture_output=True, check=True)
        return cost_from_json(done.stdout.rpartition(b"\n")[2])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        pickle.PicklingError,
    ) as error:
        _logger.info("Tracing a %s here: %r", type(workload).__name__, error)
    except subprocess.CalledProcessError as error:
        _logger.info("Tracing a %s here: %s", type(workload).__name__, error.stderr.decode()[-500:])
    return None
