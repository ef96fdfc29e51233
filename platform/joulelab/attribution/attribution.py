"""The answer: where the energy of each phase went, with what is not explained."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from typing_extensions import override

from joulelab.attribution.components import component_of, layer_of
from joulelab.attribution.estimated import EstimatedCall
from joulelab.attribution.prices import CONTRADICTION, Method, Prices, Solution
from joulelab.attribution.profile import KernelCall, PhaseProfile
from joulelab.attribution.variants import Variant
from joulelab.core.configuration import knob_words
from joulelab.core.device import DeviceIdentity
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement, Provenance
from joulelab.sampling.spells import MeteringCost
from joulelab.tracing.program import Operator

GAPS = "host gaps and idle"
"""Part of the time in which no kernel was on the device."""
UNEXPLAINED = "not explained"
"""What the meter read beyond all parts; negative where the parts are too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One part of a phase, per execution of its program."""

    name: str
    energy_j: float  # energy, in joules, the static power over its time on the device included
    energy_u_j: float
    time_s: float | None  # time; None of what is not explained, and of links, on no device
    calls: int = 0
    estimated_j: float | None = None  # what the estimator says of it; None where it says nothing
    is_supposed: bool = False  # whether most of it was not measured, but priced by its like

    @property
    def power_w(self) -> float | None:
        """Mean power, in watts; ``None`` without a time."""
        return self.energy_j / self.time_s if self.time_s else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase(ABC):
    """Where the energy of one phase went; all figures are of one execution of its program."""

    profile: PhaseProfile
    energy_j: float  # what the meter read
    energy_u_j: float
    time_s: float  # what an execution took while it was metered
    # Sum of all parts over what the meter read, less one, before the reading was used.
    closure: float
    deviation: float  # standard deviations between the two
    boards: tuple["PhaseAttribution", ...] = ()  # each board apart, where several share it

    @property
    def phase(self) -> str:
        """Name of the phase."""
        return self.profile.phase

    @property
    def unit(self) -> str:
        """Unit of its work."""
        return self.profile.unit

    @property
    def is_reconciled(self) -> bool:
        """Whether meter and priced parts agree within what both are unsure of."""
        return abs(self.deviation) <= CONTRADICTION

    @property
    def by_component(self) -> tuple[Share, ...]:
        """Components of the network, then gaps, then what is not explained."""
        return self.parts(component_of)

    @property
    def by_layer(self) -> tuple[Share, ...]:
        """Numbered layers in order, ``""`` for what is outside of them; gaps; unexplained."""
        return self.parts(layer_of)

    @property
    def by_operator(self) -> tuple[Share, ...]:
        """Operators by name, most energy first; gaps; unexplained."""
        return self.parts(lambda operator: operator.name)

    @property
    def by_stage(self) -> tuple[Share, ...]:
        """Forward, backward and optimizer, where a step trains; gaps; unexplained."""
        return self.parts(lambda operator: operator.stage)

    @property
    def by_kernel(self) -> tuple[Share, ...]:
        """Distinct kernels, most energy first."""
        return self.shares(lambda call: call.kernel)

    @property
    @abstractmethod
    def gaps(self) -> Share:
        """Time in which no kernel ran, at static power."""

    @abstractmethod
    def parts(self, key: Callable[[Operator], str]) -> tuple[Share, ...]:
        """Return the parts that ``key`` makes of the operators; gaps; unexplained."""

    @abstractmethod
    def shares(self, key: Callable[[KernelCall], str]) -> tuple[Share, ...]:
        """Return the parts that ``key`` makes of the calls, most energy first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseAttribution(Phase):
    """Where the energy of one phase went on one board."""

    prices: Prices
    prior: Solution  # prices before the meter's reading was used
    solution: Solution  # prices after
    # What the estimator says of its own trace of the program.
    estimated: tuple[EstimatedCall, ...] = ()

    @override
    def shares(self, key: Callable[[KernelCall], str]) -> tuple[Share, ...]:
        chosen = grouped_by(range(len(self.profile.calls)), lambda at: key(self.profile.calls[at]))
        weights = self.prices.weights(self.profile, list(chosen.values()))
        found = [
            self._share(*group, own) for group, own in zip(chosen.items(), weights, strict=True)
        ]
        return tuple(sorted(found, key=lambda share: -share.energy_j))

    @override
    def parts(self, key: Callable[[Operator], str]) -> tuple[Share, ...]:
        calls = grouped_by(self.estimated, lambda call: key(call.operator))
        estimates = {name: sum(one.energy_j for one in own) for name, own in calls.items()}
        found = self.shares(lambda call: key(call.operator))
        parts = (replace(share, estimated_j=estimates.get(share.name)) for share in found)
        return (*parts, self.gaps, self.unexplained)

    @property
    @override
    def gaps(self) -> Share:
        gap_s = max(0.0, self.time_s - self.profile.busy_s)
        energy_j, energy_u_j = self.solution.of(self._static(gap_s))
        return Share(name=GAPS, energy_j=energy_j, energy_u_j=energy_u_j, time_s=gap_s)

    @property
    def unexplained(self) -> Share:
        """What the meter read beyond all parts and gaps."""
        parts_j, parts_u_j = self.solution.of(self.weights)
        # Parts that were reconciled follow the meter: their uncertainties are no longer apart.
        u_j = self.energy_u_j if self.is_reconciled else np.hypot(parts_u_j, self.energy_u_j)
        return Share(
            name=UNEXPLAINED,
            energy_j=self.energy_j - parts_j,
            energy_u_j=float(u_j),
            time_s=None,
        )

    @property
    def weights(self) -> np.ndarray:
        """How much of each price an execution holds."""
        return whole_weights(self.prices, self.profile, self.time_s)

    def _share(self, name: str, indices: Sequence[int], weights: np.ndarray) -> Share:
        energy_j, energy_u_j = self.solution.of(weights)
        supposed = [self.prices.is_supposed(self.profile, index) for index in indices]
        return Share(
            name=name,
            energy_j=energy_j,
            energy_u_j=energy_u_j,
            time_s=float(weights[-1]) or None,
            calls=len(indices),
            is_supposed=sum(supposed) * 2 > len(supposed),
        )

    def _static(self, seconds: float) -> np.ndarray:
        weights = np.zeros(len(self.prices.names) + 1)
        weights[-1] = seconds
        return weights


def whole_weights(prices: Prices, profile: PhaseProfile, time_s: float) -> np.ndarray:
    """Return how much of each price an execution holds that takes ``time_s`` in all."""
    weights: np.ndarray = prices.weights(profile, [range(len(profile.calls))])[0]
    weights[-1] = max(time_s, profile.busy_s)
    return weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attribution:
    """Where the energy of a program went."""

    program: str
    knobs: Mapping[str, object]
    device: DeviceIdentity
    method: Method  # how kernels were priced
    static_w: float  # power at rest of all boards, in the same process at the same clock
    static_u_w: float
    phases: tuple[Phase, ...]
    measured: Mapping[str, Measurement]  # what the meter read, by phase
    provenance: Provenance
    # What replays of kernels read, by kernel; empty without any.
    replays: Mapping[str, Measurement] = field(default_factory=dict)
    # Those of them that were measured again with pauses.
    paced: Mapping[str, Measurement] = field(default_factory=dict)
    pauses_s: Mapping[str, float] = field(default_factory=dict)  # after each of their launches
    # The same of the program with other settings.
    variants: tuple[tuple[Variant, tuple[Phase, ...]], ...] = ()
    # What metering costs the pace of the phase with most gaps; empty where kernels were replayed.
    metering: Mapping[str, MeteringCost] = field(default_factory=dict)
    seconds: float = 0.0  # what it took of the device
    notes: tuple[str, ...] = ()  # what could not be determined, in sentences

    @property
    def boards(self) -> tuple[DeviceIdentity, ...]:
        """The boards that it ran on, in the order of ranks."""
        first = next(iter(self.measured.values()))
        return tuple(board.device for board in first.boards) or (self.device,)

    @property
    def contexts(self) -> Mapping[int, Phase]:
        """Decodes, by the tokens in the cache when they start."""
        return {
            variant.context_tokens: phases[0]
            for variant, phases in self.variants
            if variant.context_tokens is not None
        }

    @property
    def is_reconciled(self) -> bool:
        """Whether parts and meter agree in every phase, variants included."""
        others = (phase for _, phases in self.variants for phase in phases)
        return all(phase.is_reconciled for phase in (*self.phases, *others))

    def phase(self, name: str) -> Phase:
        """Return the phase called ``name``; raises KeyError if there is none."""
        return {each.phase: each for each in self.phases}[name]

    def varied(self, name: str) -> Mapping[str, Phase]:
        """Return the phase called ``name`` by settings in words, its own first.

        Empty where no settings were varied, or with them there is no such phase.
        """
        others = [
            (variant, phase)
            for variant, phases in self.variants
            for phase in phases
            if variant.context_tokens is None and phase.phase == name
        ]
        if not others:
            return {}
        own = knob_words((knob, self.knobs[knob]) for knob in others[0][0].knobs)
        return {own: self.phase(name)} | {str(variant): phase for variant, phase in others}
