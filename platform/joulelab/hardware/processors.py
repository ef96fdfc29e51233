"""The catalogue of all processors that the estimator knows: CPUs, GPUs, TPUs, KPUs.

GPUs come from their own catalogue; its data files may hold two sections for pricing kernels:
``[eager_launch]``, seconds by kind of kernel and ``default``, and ``[kind_efficiency]``. Any data
file may have ``[calibrated]``, whose figures replace what the rest of it says.
"""

from collections.abc import Iterator, Mapping

from typing_extensions import override

from joulelab.hardware.catalogue import GPUS
from joulelab.hardware.data_file import names_in
from joulelab.hardware.gpu_processor import processor_of
from joulelab.hardware.processor import Family, Processor
from joulelab.hardware.processor_file import read_processor
from joulelab.hardware.scalars import calibrated
from joulelab.registry import unknown_name

__all__ = ["ALIASES", "PROCESSORS", "Processors", "processor_of"]

ALIASES: Mapping[str, str] = {
    "a100": "a100_sxm",
    "h100": "h100_sxm",
    "h200": "h200_sxm",
    "v100": "v100_sxm2",
    "3090": "rtx_3090",
    "4090": "rtx_4090",
    "orin": "jetson_orin_agx",
    "jetson_orin_agx_gpu": "jetson_orin_agx",
    "altra_max": "altra_max_m128_30",
    "ampereone": "ampereone_a192_32x",
    "epyc_genoa": "epyc_9654",
    "epyc_bergamo": "epyc_9754",
    "epyc_turin": "epyc_9755",
    "xeon_8480+": "xeon_8480_plus",
    "xeon_8592+": "xeon_8592_plus",
    "coral": "coral_edge_tpu",
}
"""Short names, each for the usual form of a product."""

_FOLDERS: Mapping[str, Family] = {"cpus": "cpu", "tpus": "tpu", "kpus": "kpu"}


class Processors(Mapping[str, Processor]):
    """Read-only mapping from a catalogue key or an alias to a processor, read on first use.

    It iterates over keys alone, family by family, and finds aliases as well.
    """

    def __init__(self) -> None:
        self._read: dict[str, Processor] = {}

    @override
    def __getitem__(self, key: str) -> Processor:
        """Return the processor called ``key``.

        Raises:
            UnknownNameError: If there is none; names the closest ones.
        """
        key = ALIASES.get(key, key)
        if key not in self._read:
            self._read[key] = calibrated(_processor(key))
        return self._read[key]

    @override
    def __contains__(self, key: object) -> bool:
        return key in set(self) | set(ALIASES)

    @override
    def __iter__(self) -> Iterator[str]:
        yield from names_in("cpus")
        yield from GPUS
        yield from names_in("tpus")
        yield from names_in("kpus")

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


PROCESSORS = Processors()


def _processor(key: str) -> Processor:
    for folder, family in _FOLDERS.items():
        if key in set(names_in(folder)):
            return read_processor(folder, key, family)
    if key in set(GPUS):
        return processor_of(GPUS[key])
    raise unknown_name("device", key, {*PROCESSORS, *ALIASES})
