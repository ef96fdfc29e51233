"""Meter a program, profile it, price its kernels, reconcile: on one device, in one process."""

import json
from collections.abc import Callable, Mapping
from typing import Literal

from joulelab.attribution.attribution import Attribution, PhaseAttribution, whole_weights
from joulelab.attribution.estimated import Estimated, EstimatedCall, estimated_calls
from joulelab.attribution.metered import Metered, static_power
from joulelab.attribution.prices import Prices, Pricing, Run, reconcile
from joulelab.attribution.profile import PhaseProfile, ProfileSource
from joulelab.attribution.replay import Replay, ReplaySettings
from joulelab.attribution.replayed import Replayed
from joulelab.attribution.simulated_source import SimulatedSource
from joulelab.attribution.traced import traced_program
from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.base import Device
from joulelab.devices.control import Control
from joulelab.devices.simulated.device import SimulatedDevice
from joulelab.errors import ConfigError, JouleLabError, MeasurementError
from joulelab.hardware import spec_for
from joulelab.hardware.processors import processor_of
from joulelab.sampling.cuda_device import computing_on
from joulelab.tracing.program import ProgramPhase
from joulelab.workloads import WORKLOADS

Asked = Literal["auto", "replay", "classes"]

REPLAY = Procedure(
    idle_s=3.0, warmup_min_s=0.4, warmup_max_s=0.6, window_s=0.4, min_windows=2, limit_s=1.0
)
"""How replays are measured: kernels are steady within tenths of a second, and there are many."""
_REPLAY = "kernel-replay"
"""What replays are called among this process's programs."""
_STATIC = 0.03
"""How far idle power is from static power under load, one standard deviation: it is colder."""


class Session:
    """Attributes the energy of programs on one device.

    ``control`` turns its knobs, ``None`` being this process itself; ``report`` is told what is
    being done; ``bench`` measures, by default one that is made of the others.
    """

    def __init__(
        self,
        device: Device,
        *,
        control: Control | None = None,
        procedure: Procedure | None = None,
        report: Callable[[str], object] = lambda _: None,
        bench: Bench | None = None,
    ) -> None:
        self._device = device
        self._report = report
        self._replaying: int | None = None
        self._spec = spec_for(device.identity().name)
        self._bench = bench or Bench(
            device, control=control, procedure=procedure, report=self._tell
        )

    def _tell(self, step: str) -> None:
        """Pass on what the bench does; of a replay, which kernel it is at."""
        if self._replaying is None:
            self._report(step)
        elif step.endswith(": warming up"):
            self._replaying += 1
            self._report(f"Replaying kernel {self._replaying}: {step.partition(':')[0]}")

    def attribute(self, configuration: Configuration, method: Asked = "auto") -> Attribution:
        """Return where the energy of a workload goes at an operating point.

        Raises:
            ConfigError: If the program cannot be run or traced as asked for.
            MeasurementError: If a phase could not be measured; says why.
        """
        started_s = self._device.clock.now_s()
        self._require_kernels(configuration)
        try:
            records = self._bench.measure(_trial(configuration))
            measured = {each.measurement.phase: each.measurement for each in records}
            static_w, static_u_w = static_power(measured, _STATIC)
            metered = {name: Metered.of(read, static_w) for name, read in measured.items()}
            notes = [each.note for each in metered.values() if each.note]
            traced = self._traced(configuration, notes)
            self._report("Profiling")
            with computing_on(self._device.identity().uuid):
                profiles = self._source(configuration, traced).profile(measured)
            estimates = self._estimates(traced, configuration, notes)
            pricing = self._pricing(configuration, method, estimates, static_w)
            prices = pricing.prices(profiles, measured)
        finally:
            self._bench.close()
        first = next(iter(measured.values()))
        return Attribution(
            program=configuration.workload,
            knobs=dict(configuration.knobs),
            device=first.device,
            method=pricing.method,
            static_w=static_w,
            static_u_w=static_u_w,
            phases=_phases(profiles, metered, prices, (static_w, static_u_w), estimates),
            measured=measured,
            provenance=first.provenance,
            replays=pricing.measured if isinstance(pricing, Replayed) else {},
            seconds=self._device.clock.now_s() - started_s,
            notes=tuple(notes),
        )

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

    def _traced(self, configuration: Configuration, notes: list[str]) -> tuple[ProgramPhase, ...]:
        try:
            return traced_program(self._bench.prepared(configuration))
        except ConfigError as error:
            if not self._device.is_hardware:
                raise
            notes.append(f"The estimator does not know the program: {error}")
            return ()

    def _source(
        self, configuration: Configuration, traced: tuple[ProgramPhase, ...]
    ) -> ProfileSource:
        if self._device.is_hardware:
            from joulelab.attribution.torch_source import TorchSource

            return TorchSource(self._bench.prepared(configuration))
        if self._spec is None:
            raise ConfigError(f"{self._device.identity().name} is not in the catalogue.")
        return SimulatedSource(self._spec, traced)

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
            return estimated_calls(processor_of(self._spec), traced, configuration.point, precision)
        except JouleLabError as error:
            notes.append(f"The estimator has no answer: {error}")
            return {}

    def _pricing(
        self,
        configuration: Configuration,
        method: Asked,
        estimates: Mapping[str, tuple[EstimatedCall, ...]],
        static_w: float,
    ) -> Pricing:
        if method == "classes":
            if self._spec is None or not estimates:
                raise MeasurementError(
                    "Pricing by classes needs the estimator, which does not know the program or "
                    "the GPU; take --method replay."
                )
            return Estimated(estimates, static_w)
        return Replayed(lambda: self._replays(configuration), self._spec)

    def _replays(self, configuration: Configuration) -> Mapping[str, Measurement]:
        settings = ReplaySettings(
            program=configuration.workload, knobs=json.dumps(dict(configuration.knobs))
        )
        asked = Configuration.of(_REPLAY, settings, configuration.point)
        WORKLOADS.programs.hold(_REPLAY, Replay)
        self._replaying = 0
        try:
            records = self._bench.measure(_trial(asked), procedure=REPLAY)
        finally:
            self._replaying = None
        return {each.measurement.phase: each.measurement for each in records}


def _trial(configuration: Configuration) -> Trial:
    return Trial(study="attribution", name=configuration.workload, configuration=configuration)


def _phases(
    profiles: tuple[PhaseProfile, ...],
    metered: Mapping[str, Metered],
    prices: Prices,
    static: tuple[float, float],
    estimates: Mapping[str, tuple[EstimatedCall, ...]],
) -> tuple[PhaseAttribution, ...]:
    runs = tuple(_run(profile, metered[profile.phase], prices) for profile in profiles)
    prior = prices.with_static(*static)
    found = reconcile(prior, runs)
    return tuple(
        PhaseAttribution(
            profile=profile,
            energy_j=run.energy_j,
            energy_u_j=run.energy_u_j,
            time_s=profile.work * metered[profile.phase].time_s,
            closure=prior.of(run.weights)[0] / run.energy_j - 1,
            deviation=deviation,
            prices=prices,
            prior=prior,
            solution=found.solution if is_used else prior,
            estimated=estimates.get(profile.phase, ()),
        )
        for profile, run, deviation, is_used in zip(
            profiles, runs, found.deviations, found.used, strict=True
        )
    )


def _run(profile: PhaseProfile, metered: Metered, prices: Prices) -> Run:
    return Run(
        weights=whole_weights(prices, profile, profile.work * metered.time_s),
        energy_j=profile.work * metered.energy_j,
        energy_u_j=profile.work * metered.energy_u_j,
    )
