"""Programs traced with the modules that call each operator."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from joulelab.errors import ConfigError
from joulelab.tracing.program import KV_CACHE, Operator, ProgramPhase, TracedModel, region
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import identity_of
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.llama import CUT_BY_ROWS
from joulelab.workloads.network import NetworkWorkload
from joulelab.workloads.ranks import num_sharing


def traced_program(workload: Workload[Any]) -> tuple[ProgramPhase, ...]:
    """Return the phases of a workload, traced once for all attributions of what it is set to.

    Raises ConfigError if it is no network that can be traced with its modules.
    """
    kind = type(workload)
    if not (workload.is_defined_by_settings and kind.__module__.startswith("joulelab.")):
        return _traced(workload)  # others' code may change where no digest sees it
    from joulelab.estimator.models.sources import kept_trace

    asked = {"attributed": identity_of(workload, ["attribution/traced.py"])}
    return kept_trace(asked, lambda: _model(workload), is_own=lambda: True).phases


def _model(workload: Workload[Any]) -> TracedModel:
    phases, settings = _traced(workload), workload.settings
    return TracedModel(
        name=type(workload).__name__,
        unit=workload.unit,
        batch=settings.batch,
        precision=settings.precision,
        phases=phases,
    )


def _traced(workload: Workload[Any]) -> tuple[ProgramPhase, ...]:
    with cache_regions():
        if isinstance(workload, LanguageWorkload):
            from joulelab.estimator.models.language import trace_language

            return _with_sums(trace_language(workload).phases, workload)
        if isinstance(workload, NetworkWorkload):
            return workload.traced()
    raise ConfigError(
        f"What is traced with its modules must be a network, got {type(workload).__name__}; a "
        "simulated GPU attributes a torch.nn.Module with its inputs, a real one any program."
    )


def _with_sums(
    phases: tuple[ProgramPhase, ...], workload: LanguageWorkload[Any]
) -> tuple[ProgramPhase, ...]:
    """Return the phases of one GPU with what it sends to those that share them."""
    from joulelab.estimator.models.tensor_parallelism import with_sums

    if num_sharing(workload) == 1:
        return phases
    return tuple(
        replace(
            each, program=with_sums(each.program, list(map(_is_summed, each.program.operators)))
        )
        for each in phases
    )


def _is_summed(operator: Operator) -> bool:
    return operator.kind == "gemm" and operator.module.endswith(CUT_BY_ROWS)


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
