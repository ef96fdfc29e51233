"""Attribute the energy of a program, in this process or wherever else a lab is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joulelab.attribution.attribution import Attribution, Share
from joulelab.attribution.session import Asked
from joulelab.attribution.variants import variants_of
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ANALYSIS, ConfigError, require
from joulelab.study.abstract_lab import AbstractLab
from joulelab.study.lab import Lab, StudyWorkload
from joulelab.study.worker import GpuWorker
from joulelab.tracking.durable import write_whole

if TYPE_CHECKING:  # pandas takes half a second
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributionStudy:
    """Where the energy of a program goes; ``str()`` tells it as ``joulelab attribute`` does.

    Attributes:
        found: All of it, phase by phase.
        folder: Where its results belong; nothing is written there by itself.
    """

    found: Attribution
    folder: Path

    def components(self, phase: str | None = None) -> tuple[Share, ...]:
        """Return the components of a phase, by default of the only one.

        Raises:
            ConfigError: If there are several phases, and none was named.
            KeyError: If there is no such phase.
        """
        phases = [each.phase for each in self.found.phases]
        if phase is None and len(phases) > 1:
            raise ConfigError(f"Say which phase: {', '.join(phases)}.")
        return self.found.phase(phase or phases[0]).by_component

    def to_frame(self) -> "pd.DataFrame":
        """Return all parts at every level as numbers in SI units, per unit of work."""
        require(*ANALYSIS)
        from joulelab.analysis.attributed.numbers import frame

        return frame(self.found).to_pandas()

    def report(self, path: str | Path) -> Path:
        """Write an HTML page that needs no other file, and return its path."""
        require(*ANALYSIS)
        from joulelab.analysis.attributed.page import page

        write_whole(Path(path), page(self.found).encode())
        return Path(path)

    def __str__(self) -> str:
        from joulelab.analysis.attributed.table import text

        return text(self.found)


def attribute(
    program: object,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    method: Asked = "auto",
    contexts: Sequence[int] = (),
    vary: Mapping[str, Sequence[KnobValue]] | None = None,
    point: OperatingPoint | None = None,
    lab: AbstractLab[Any] | None = None,
) -> AttributionStudy:
    """Say where inside a network its energy goes: components, layers, operators, kernels.

    ::

        found = joulelab.attribute(network, (images,))
        print(found)
        found.report("attribution.html")

    The whole is metered, its calls are profiled, each distinct kernel is replayed alone, and the
    parts are reconciled with the meter. What they leave over is shown.

    Args:
        program: A ``torch.nn.Module`` with its ``inputs``, or whatever :func:`joulelab.measure`
            takes; programs that are not networks need a real GPU.
        inputs: Arguments of a call of the module, on its device.
        knobs: Values of the program's arguments, or of a workload's settings.
        method: ``"replay"``, or ``"classes"``, which prices kernels by the estimator's power of
            their kind and takes little longer than measuring; ``"auto"`` is ``"replay"``.
        contexts: Tokens in the cache when a decode starts; what it takes after so many is in the
            answer, too, and so is what answers take that end there.
        vary: Settings with which the program is attributed, too, all combinations of their values.
        point: Clocks and power limit; by default the driver's own.
        lab: On which GPU and how: a ``Lab``, which is this process, or a ``Laboratory`` of
            :mod:`joulelab_actors`, which is a Ray cluster; the first of its GPUs is taken.

    Raises:
        ConfigError: If it cannot be carried out as asked for.
        DeviceError: If there is no such GPU, or it cannot be used.
        MeasurementError: If a phase could not be metered; says why.
    """
    require(*ANALYSIS)
    if inputs is not None:
        from joulelab.workloads.own_module import module_workload

        program = module_workload(program, inputs)
    lab, variants = lab or Lab(), variants_of(contexts, vary)
    workload = StudyWorkload(program, knobs)
    with lab.open(workload.name) as gpus:
        folder = lab.folder(f"attribution-{workload.name}", gpus)
        asked = Configuration.of(workload.name, workload.settings, point)
        work = partial(GpuWorker.attribute, configuration=asked, method=method, variants=variants)
        found = lab.work_on(gpus[0], lab.how(folder, {workload.name}), work)
    return AttributionStudy(found=found, folder=folder)
