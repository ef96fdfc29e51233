"""Programs traced with the modules that call each operator."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from joulelab.errors import ConfigError
from joulelab.tracing.program import KV_CACHE, ProgramPhase, region
from joulelab.workloads.base import Workload
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.network import NetworkWorkload


def traced_program(workload: Workload[Any]) -> tuple[ProgramPhase, ...]:
    """Trace the phases of a workload.

    Raises:
        ConfigError: If it is no network that can be traced with its modules.
    """
    with cache_regions():
        if isinstance(workload, LanguageWorkload):
            from joulelab.estimator.models.language import trace_language

            return trace_language(workload).phases
        if isinstance(workload, NetworkWorkload):
            return workload.traced()
    raise ConfigError(
        f"{type(workload).__name__} cannot be traced with its modules, got the settings "
        f"{asdict(workload.settings)}; attribute a workload that is a network."
    )


@contextmanager
def cache_regions() -> Generator[None]:
    """Name what transformers' caches do in a ``with`` block."""
    from joulelab.tracing.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    from transformers.cache_utils import Cache

    update = Cache.update

    def named(self: Cache, *args: Any, **kwargs: Any) -> Any:
        with region(KV_CACHE):
            return update(self, *args, **kwargs)

    Cache.update = named  # type: ignore[method-assign]
    try:
        yield
    finally:
        Cache.update = update  # type: ignore[method-assign]
