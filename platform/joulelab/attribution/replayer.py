"""Measure the distinct kernels of a program alone, each once, and at the pace of the program."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from joulelab.attribution.metered import by_board
from joulelab.attribution.pacing import ClockFactor, Pause, pauses
from joulelab.attribution.profile import MOST_NAMED, PhaseProfile
from joulelab.attribution.replay import Replay, ReplaySettings
from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.workloads import WORKLOADS

REPLAY = Procedure(
    idle_s=3.0,
    warmup_min_s=0.3,
    warmup_max_s=0.3,
    window_s=0.25,
    min_windows=2,
    limit_s=0.6,
    relative_ci=0.03,
)
"""How replays are measured: kernels are steady within tenths of a second, there are many, and in a
program they are some percent away from what they take alone, however well that is known."""
_REPLAY = "kernel-replay"
"""What replays are called among this process's programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replays:
    """Kernels that were measured alone, by name."""

    measured: Mapping[str, Measurement] = field(default_factory=dict)  # back to back
    # Those that the power limit slows alone, again with pauses, and the pause after each launch.
    paced: Mapping[str, Measurement] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)

    def by_board(self, num_boards: int) -> "list[Replays]":
        """Return what was measured on each board."""
        boards = (by_board(each, num_boards) for each in (self.measured, self.paced))
        return [
            replace(self, measured=measured, paced=paced)
            for measured, paced in zip(*boards, strict=True)
        ]

    def refused(self) -> list[str]:
        """Say which kernels could not be measured alone, and why, a sentence for each reason."""
        found: dict[str, dict[str, str]] = {}
        for name, read in self.measured.items():
            if read.findings and name not in self.paced:
                found.setdefault(read.findings[0].reason, {})[name] = read.findings[0].detail
        return [
            f"{len(names)} of {len(self.measured)} kernels could not be measured alone and are "
            f"priced by their like ({', '.join(list(names)[:MOST_NAMED])}): {reason}: "
            f"{next(iter(names.values()))}"
            for reason, names in found.items()
        ]

    def and_those_of(self, other: "Replays") -> "Replays":
        """Return both; ``other`` goes before."""
        return Replays(
            measured={**self.measured, **other.measured},
            paced={**self.paced, **other.paced},
            pauses={**self.pauses, **other.pauses},
        )


class Replayer:
    """Replays what is not known yet at a point, and knows it from then on.

    ``report`` is called with the kernel it is at.
    """

    def __init__(self, bench: Bench, num_boards: int, report: Callable[[str], object]) -> None:
        self._bench, self._num_boards, self._report = bench, num_boards, report
        self._known: dict[OperatingPoint, Replays] = {}
        self._number: int | None = None
        self._most = 0

    def hear(self, step: str) -> bool:
        """Report which kernel a step of the bench is of; return whether it is one of a replay."""
        if self._number is not None and step.endswith(": warming up"):
            self._number += 1
            which = f"{self._number} of at most {self._most}"
            self._report(f"Replaying kernel {which}: {step.partition(':')[0]}")
        return self._number is not None

    def replays(
        self,
        configuration: Configuration,
        phase: str,
        measured: Mapping[str, Measurement],
        profiles: Sequence[PhaseProfile],
        factor: ClockFactor,
    ) -> Replays:
        """Return the kernels of a phase, or of all, alone; ``measured`` is the program itself."""
        known = self._known.get(configuration.point, Replays())
        settings = ReplaySettings(
            program=configuration.workload,
            knobs=json.dumps(dict(configuration.knobs)),
            phases=phase,
            known="\n".join(known.measured),
            tensor_parallel=self._num_boards,
        )
        kernels = {call.kernel for profile in profiles for call in profile.calls}
        found = Replays(
            measured=self._measured(settings, configuration.point, len(kernels - {*known.measured}))
        )
        (first, *_) = found.by_board(self._num_boards)
        if asked := pauses(first.measured, measured, profiles, factor):
            settings = replace(settings, pauses=json.dumps(asked))
            paced = self._measured(settings, configuration.point, len(asked))
            valid = {name: one for name, one in paced.items() if one.valid}
            found = replace(found, paced=valid, pauses={name: asked[name] for name in valid})
        self._known[configuration.point] = known = known.and_those_of(found)
        return known

    def _measured(
        self, settings: ReplaySettings, point: OperatingPoint, most: int
    ) -> dict[str, Measurement]:
        WORKLOADS.programs.hold(_REPLAY, Replay)
        asked = Configuration.of(_REPLAY, settings, point)
        self._number, self._most = 0, most
        try:
            records = self._bench.measure(trial_of(asked), procedure=REPLAY)
        finally:
            self._number = None
        return {record.measurement.phase: record.measurement for record in records}


def trial_of(configuration: Configuration) -> Trial:
    """Return the trial that measures a configuration for an attribution."""
    return Trial(study="attribution", name=configuration.workload, configuration=configuration)
