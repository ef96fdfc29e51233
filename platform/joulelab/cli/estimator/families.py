"""``joulelab estimate-cpu`` and its kin: the events inside a device of one family."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.cli.estimator.estimate import Estimate
from joulelab.cli.estimator.options import Names, names
from joulelab.errors import ConfigError
from joulelab.estimator.cell import Cell
from joulelab.hardware.processor import Family
from joulelab.hardware.processors import PROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEstimate(Estimate):
    """An estimate down to architectural events, on devices of one family.

    Attributes:
        events: Break energies down to architectural events.
    """

    family: ClassVar[Family]

    events: bool = True

    @override
    def predict(self) -> tuple[Cell, ...]:
        for name in names(self.device, "device"):
            found = PROCESSORS[name].family
            if found != self.family:
                raise ConfigError(
                    f"{name} is a {found.upper()} and this command is for {self.family.upper()}s; "
                    f"use `joulelab estimate-{found}`."
                )
        return Estimate.predict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateCpu(FamilyEstimate):
    """Predict models on CPUs, down to the events of a stored program.

    Its pipeline, register file, caches and memory, scalar, vector and matrix units, branches.

    Attributes:
        device: CPUs that `joulelab processors --family cpu` lists.
    """

    family: ClassVar[Family] = "cpu"

    device: Names = "xeon_8490h"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateGpu(FamilyEstimate):
    """Predict models on GPUs, down to the events of SIMT execution.

    Its tensor and vector units, register file, shared memory, L2 and memory, scheduling,
    divergence, coalescing, barriers, launches.

    Attributes:
        device: GPUs that `joulelab processors --family gpu` lists.
    """

    family: ClassVar[Family] = "gpu"

    device: Names = "h200_sxm"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateTpu(FamilyEstimate):
    """Predict models on TPUs, down to the events of systolic arrays.

    Its arrays, weight tiles, activation stream, accumulators, unified buffer, vector and scalar
    units, control, filling and draining.

    Attributes:
        device: TPUs that `joulelab processors --family tpu` lists.
    """

    family: ClassVar[Family] = "tpu"

    device: Names = "tpu_v4"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateKpu(FamilyEstimate):
    """Predict models on KPUs, down to the events of domain flow; projected, without silicon.

    Its tiles, tokens in and out, local and shared memories, network on chip, streamers and DMA,
    the loading of programs.

    Attributes:
        device: KPUs that `joulelab processors --family kpu` lists.
    """

    family: ClassVar[Family] = "kpu"

    device: Names = "kpu_t256"
