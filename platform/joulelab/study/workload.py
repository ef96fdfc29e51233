"""What a study of this process is to measure: a program as a name and settings."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import Direction
from joulelab.devices.choice import is_hardware
from joulelab.errors import ConfigError
from joulelab.study.gpu import StudyGpu
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.program import Cost, Program, Quality, Work, workload_type


class StudyWorkload:
    """A program as measurements know it, with its ``name`` and ``settings``.

    It is a name (of a workload, ``"file.py:attribute"``, ``"module:attribute"``), a callable, a
    :class:`~joulelab.workloads.base.Workload`, or the settings of one. Knobs that are left out take
    their default; options are as in :func:`~joulelab.workloads.program.workload_type`.

    Raises:
        ConfigError: If it cannot be run as asked for.
    """

    def __init__(
        self,
        program: object,
        knobs: Mapping[str, KnobValue] | None = None,
        *,
        unit: str | None = None,
        work: Work | None = None,
        cost: Cost | Callable[..., Cost] | None = None,
        quality: Quality | None = None,
        quality_direction: Direction | None = None,
    ) -> None:
        options: dict[str, Any] = {"unit": unit, "work": work, "cost": cost}
        options |= {"quality": quality, "quality_direction": quality_direction}
        given: dict[str, Any] = {}
        if is_dataclass(program) and not (callable(program) or isinstance(program, Workload)):
            given, program = asdict(program), WORKLOADS.name_of(program)
        elif isinstance(program, str):
            program = WORKLOADS.known_as(program)
        self._program = program
        if isinstance(program, str):
            self.name, kind = program, WORKLOADS[program]
            if any(value is not None for value in options.values()):
                kind = self._with_options(kind, options)
        else:
            if isinstance(program, Workload):
                given, program = asdict(program.settings), type(program)
            self.name, kind = _name_of(program), workload_type(program, **options)
            WORKLOADS.programs.hold(self.name, kind)
        self.settings: Any = kind.from_knobs({**given, **(knobs or {})}).settings

    def check(self, gpus: tuple[StudyGpu, ...]) -> None:
        """Refuse to move what cannot be moved from GPU to GPU.

        Raises:
            ConfigError: If several real GPUs are to run a function or an object.
        """
        movable = isinstance(self._program, str | type | Workload)
        if len(gpus) > 1 and not movable and is_hardware(gpus[0].address):
            raise ConfigError(
                f"{self.name} is a function or an object, which may hold what lies on one GPU, but "
                f"{len(gpus)} are to run it; give a class, of which one is made on each, or a name."
            )

    def _with_options(
        self, kind: type[Workload[Any]], options: Mapping[str, Any]
    ) -> type[Workload[Any]]:
        if not issubclass(kind, Program):
            raise ConfigError(f"{self.name} is a workload: it says unit, work, cost and quality.")
        kind = workload_type(kind.target[0], **options)
        WORKLOADS.programs.hold(self.name, kind)
        return kind


def _name_of(program: object) -> str:
    """Return what results call an object; no process but this one can find it by that."""
    named = program if hasattr(program, "__qualname__") else type(program)
    module, name = getattr(named, "__module__", ""), getattr(named, "__qualname__", "program")
    if module == "__main__":
        import __main__

        module = Path(getattr(__main__, "__file__", "__main__")).stem
    return f"{module}.{name}"
