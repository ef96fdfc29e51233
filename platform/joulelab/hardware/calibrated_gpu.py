"""GPUs of the catalogue with what micro-benchmarks gave, each put together once."""

from functools import lru_cache

from typing_extensions import override

from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import processor_of
from joulelab.hardware.scalars import calibrated
from joulelab.hardware.spec import GpuSpec


def calibrated_gpu(spec: GpuSpec) -> Processor:
    """Return the GPU ``spec`` with the scalars that its data file has in ``[calibrated]``."""
    return _calibrated(_Same(spec))


class _Same:
    """A GPU as the key of a cache: equal to itself alone, for its mappings have no hash."""

    def __init__(self, spec: GpuSpec) -> None:
        self.spec = spec

    @override
    def __hash__(self) -> int:
        return id(self.spec)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.spec is self.spec


@lru_cache(maxsize=64)  # a simulated GPU asks at every phase that it plays
def _calibrated(gpu: _Same) -> Processor:
    return calibrated(processor_of(gpu.spec))
