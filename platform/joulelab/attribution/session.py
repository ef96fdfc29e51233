"""Meter a program, profile it, price its kernels, reconcile."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from joulelab.attribution.attribution import Attribution
from joulelab.attribution.clock_law import ClockLaw
from joulelab.attribution.estimated import Estimated, EstimatedCall, estimated_calls
from joulelab.attribution.metered import Readings, by_board
from joulelab.attribution.prices import Pricing
from joulelab.attribution.profile import PhaseProfile
from joulelab.attribution.reconciled import board_phases, of_boards, with_waiting
from joulelab.attribution.replayed import Replayed
from joulelab.attribution.replayer import Replayer, Replays, trial_of
from joulelab.attribution.simulated_source import SimulatedSource
from joulelab.attribution.traced import traced_program
from joulelab.attribution.variants import Variant
from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.devices.base import Device
from joulelab.devices.control import Control
from joulelab.devices.simulated.device import SimulatedDevice
from joulelab.errors import ConfigError, JouleLabError, MeasurementError
from joulelab.hardware import spec_for
from joulelab.hardware.processors import processor_of
from joulelab.registry import unknown_name
from joulelab.sampling.cuda_device import computing_on
from joulelab.sampling.spells import MeteringCost
from joulelab.tracing.program import ProgramPhase
from joulelab.workloads import WORKLOADS
from joulelab.workloads.ranks import Ranks

Asked = Literal["auto", "replay", "classes"]

_STATIC = 0.03
"""How far idle power is from static power under load, one standard deviation: it is colder."""


class Session:
    """Attributes the energy of programs on one device, or on several that share every layer.

    ``partners`` are the others; ``control`` turns their knobs, ``None`` being this process itself;
    ``report`` gets what is being done; ``bench`` measures, by default one that is made of the
    others. The profiler's traces are kept in ``traces``, if that is a folder; real GPUs have some.
    Raises ConfigError if ``procedure`` measures no idle power, which every answer needs.
    """

    def __init__(
        self,
        device: Device,
        *,
        partners: Sequence[Device] = (),
        control: Control | None = None,
        procedure: Procedure | None = None,
        report: Callable[[str], object] = lambda _: None,
        bench: Bench | None = None,
        traces: Path | None = None,
    ) -> None:
        if procedure is not None and not procedure.idle_s:
            raise ConfigError("Attribution needs idle power: idle_s must be above 0, got 0.")
        self._device = device
        self._traces = None if traces is None else traces.resolve()  # ranks run elsewhere
        self._num_boards = 1 + len(partners)
        self._report = report
        self._spec = spec_for(device.identity().name)
        self._law = ClockLaw(self._spec)
        self._bench = bench or Bench(
            device, partners=partners, control=control, procedure=procedure, report=self._tell
        )
        self._replayer = Replayer(self._bench, self._num_boards, report)

    def _tell(self, step: str) -> None:
        """Pass on what the bench does; of a replay, which kernel it is at."""
        if not self._replayer.hear(step):
            self._report(step)

    def attribute(
        self,
        configuration: Configuration,
        method: Asked = "auto",
        variants: Sequence[Variant] = (),
    ) -> Attribution:
        """Return where the energy of a workload goes at an operating point.

        What ``variants`` of it take is in the answer, too. Raises ConfigError if the program cannot
        be run or traced as asked for; MeasurementError if a phase could not be measured; says why.
        """
        if method not in get_args(Asked):
            raise unknown_name("method", method, get_args(Asked))
        asked = [(variant, variant.of(configuration)) for variant in variants]
        found = self._attribute(configuration, method)
        beside = [
            (variant, self._attribute(each, method, variant))
            for variant, each in asked
            if each != configuration
        ]
        others_notes = (
            f"With {variant}: {note}"
            for variant, each in beside
            for note in each.notes
            if note not in found.notes
        )
        return replace(
            found,
            variants=tuple((variant, each.phases) for variant, each in beside),
            seconds=found.seconds + sum(each.seconds for _, each in beside),
            notes=(*found.notes, *others_notes),
        )

    def _attribute(
        self, configuration: Configuration, method: Asked, variant: Variant | None = None
    ) -> Attribution:
        """Attribute the program, or one phase or all of a variant of it."""
        phase = "" if variant is None else variant.phase
        started_s = self._device.clock.now_s()
        notes: list[str] = []
        traced = self._checked(configuration, method, notes)
        try:
            records = self._bench.measure(trial_of(configuration))
            measured = _by_phase(records, phase)
            boards = [Readings.of(own, _STATIC) for own in by_board(measured, self._num_boards)]
            notes += dict.fromkeys(note for board in boards for note in board.notes)
            self._report("Profiling")
            profiles = self._profiles(configuration, traced, boards, measured, variant)
            estimates = self._estimates(traced, configuration, notes)
            is_cheap = method == "classes" and variant is None
            metering = self._metering(configuration, boards[0], profiles[0]) if is_cheap else {}
            replays = self._replays(configuration, method, phase, boards[0], profiles[0])
        finally:
            self._bench.close()
        alone = replays.by_board(self._num_boards)
        found = [
            board_phases(board, own, self._pricing(method, estimates, board, each), estimates)
            for board, own, each in zip(boards, profiles, alone, strict=True)
        ]
        first = next(iter(measured.values()))
        return Attribution(
            program=configuration.workload,
            knobs=dict(configuration.knobs),
            device=first.device,
            method="classes" if method == "classes" else "replay",
            static_w=sum(board.static_w for board in boards),
            static_u_w=float(np.linalg.norm([board.static_u_w for board in boards])),
            phases=tuple(map(of_boards, zip(*found, strict=True))),
            measured=measured,
            provenance=first.provenance,
            replays=replays.measured,
            paced=replays.paced,
            pauses_s={name: pause.duration_s for name, pause in replays.pauses.items()},
            metering=metering,
            seconds=self._device.clock.now_s() - started_s,
            notes=(*notes, *replays.refused()),
        )

    def _checked(
        self, configuration: Configuration, method: Asked, notes: list[str]
    ) -> tuple[ProgramPhase, ...]:
        """Trace the program; refuse what cannot be answered, before minutes of measuring."""
        self._require_kernels(configuration)
        instead = "--method classes prices kernels by the estimator; take --method replay"
        if method == "classes" and self._spec is None:
            name = self._device.identity().name
            raise ConfigError(f"{instead}, since {name} is not in the catalogue.")
        program = WORKLOADS[configuration.workload].from_knobs(dict(configuration.knobs))
        try:
            return traced_program(program)
        except ConfigError as error:
            if not self._device.is_hardware:
                raise
            if method == "classes":
                raise ConfigError(f"{instead}. {error}") from error
            notes.append(f"The estimator does not know the program: {error}")
            return ()

    def _require_kernels(self, configuration: Configuration) -> None:
        """Refuse what has no calls to attribute to: a recording, or a compiled program."""
        if dict(configuration.knobs).get("compile"):
            raise ConfigError(
                "Energy is attributed to calls of operators, which a compiled program has not; "
                "leave out compile, and attribute it as it runs eagerly."
            )
        if not (self._device.is_hardware or isinstance(self._device, SimulatedDevice)):
            raise ConfigError(
                "Energy is attributed on a real or a simulated GPU, got "
                f"{self._device.identity().name} of a recording, which holds no kernels."
            )
        if self._traces is not None and not self._device.is_hardware:
            raise ConfigError(
                "Only a real GPU has traces to keep, got a simulated "
                f"{self._device.identity().name}; leave --traces out."
            )
        if self._num_boards > 1 and dict(configuration.knobs).get("tensor_parallel", 1) == 1:
            raise ConfigError(
                f"{self._num_boards} GPUs that run a copy each take what one takes; attribute one, "
                f"or have them share the program: --tensor-parallel {self._num_boards}."
            )

    def _profiles(
        self,
        configuration: Configuration,
        traced: tuple[ProgramPhase, ...],
        boards: Sequence[Readings],
        measured: Mapping[str, Measurement],
        variant: Variant | None,
    ) -> Sequence[tuple[PhaseProfile, ...]]:
        """Return the profiles of what was measured, board by board; traces are of no variant."""
        traces = self._traces if variant is None else None
        if not self._device.is_hardware:
            if self._spec is None:
                raise ConfigError(f"{self._device.identity().name} is not in the catalogue.")
            source = SimulatedSource(self._spec, traced, self._num_boards)
            found = [source.profile(board.measured) for board in boards]
        else:
            from joulelab.attribution.torch_source import profiled

            hosted = self._bench.hosted(configuration)
            if isinstance(hosted, Ranks):
                found = hosted.on_each(partial(profiled, measured=measured, traces=traces))
            else:
                with computing_on(self._device.identity().uuid):
                    found = [profiled(hosted, measured, traces)]
        return found if len(found) == 1 else with_waiting(found, measured)

    def _estimates(
        self,
        traced: tuple[ProgramPhase, ...],
        configuration: Configuration,
        notes: list[str],
    ) -> Mapping[str, tuple[EstimatedCall, ...]]:
        if self._spec is None or not traced:
            return {}
        precision = str(dict(configuration.knobs).get("precision", "fp32"))
        try:
            return estimated_calls(
                processor_of(self._spec),
                traced,
                configuration.point,
                precision,
                self._num_boards,
            )
        except JouleLabError as error:
            notes.append(f"The estimator has no answer: {error}")
            return {}

    def _replays(
        self,
        configuration: Configuration,
        method: Asked,
        phase: str,
        board: Readings,
        profiles: Sequence[PhaseProfile],
    ) -> Replays:
        if method == "classes":
            return Replays()
        return self._replayer.replays(
            configuration, phase, board.measured, profiles, self._law.factor
        )

    def _pricing(
        self,
        method: Asked,
        estimates: Mapping[str, tuple[EstimatedCall, ...]],
        board: Readings,
        replays: Replays,
    ) -> Pricing:
        if method != "classes":
            return Replayed(replays, self._law)
        if self._spec is None or not estimates:
            raise MeasurementError(
                "Pricing by classes needs the estimator, which does not know the program or the "
                "GPU; take --method replay."
            )
        return Estimated(estimates, board.static_w, self._spec.link.awake_w)

    def _metering(
        self, configuration: Configuration, board: Readings, profiles: Sequence[PhaseProfile]
    ) -> Mapping[str, MeteringCost]:
        """Return what metering costs where the host sets the pace most, whose time it takes."""
        self._report("Comparing metered and bare spells")
        busy = {
            one.phase: one.busy_s / one.work / board.metered[one.phase].time_s for one in profiles
        }
        phase = min(busy, key=lambda name: busy[name])
        return {phase: self._bench.metering_cost(configuration, phase)}


def _by_phase(records: Iterable[Record], phase: str = "") -> dict[str, Measurement]:
    measured = (record.measurement for record in records)
    return {one.phase: one for one in measured if phase in ("", one.phase)}
