"""Run a study of knobs at the driver's own clocks, from its grid to its answer."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Generic, TypeVar

import tyro
from rich.console import Console

from joulelab.analysis.conclude import conclude_knobs, report_of
from joulelab.analysis.knob_grid import (
    ASKED,
    Axis,
    KnobGrid,
    KnobLog,
    KnobStudy,
    knob_grid,
)
from joulelab.analysis.knob_study import KnobResult
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.plan import check_plan, plan_sweep
from joulelab.core.quality import Quality
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.network import NetworkWorkload
from joulelab_actors.laboratory import Laboratory

SENTINEL_EVERY = 10

Settings = TypeVar("Settings")
Score = Callable[[], tuple[tuple[Quality, ...], ...]]
"""Returns what the outputs of each case of the grid are worth."""


@dataclass(frozen=True, kw_only=True)
class KnobOptions(Generic[Settings]):
    """What every study of knobs lets its users choose.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs, at the driver's own clocks.
        repeats: Blocks; each holds every combination once in its own random order.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    repeats: int = 3
    order_seed: int = 0

    @property
    def knobs(self) -> dict[str, KnobValue]:
        """Knobs of the workload."""
        return asdict(self.workload)  # type: ignore[call-overload,no-any-return]

    def grid(self, axes: Sequence[Axis], *, whole: str = "") -> KnobGrid:
        """Combine the values of ``axes`` with the workload's own knobs."""
        return knob_grid(WORKLOADS.name_of(self.workload), self.knobs, axes, whole=whole)

    def measure(self, study: KnobStudy, kind: str, *, score: Score = tuple) -> int:
        """Measure a grid of knobs, conclude and print; no setter of a GPU is called.

        What a GPU cannot run becomes a row with its reason. The first configuration that the
        workload takes is measured again between the others, so that drift is seen and boards are
        comparable. Those that run the same network follow each other, so that it is loaded once.
        ``kind`` begins the study's name; ``score`` is called once all is measured.

        Returns:
            The exit code: 0 if every combination has figures or cannot have any, 130 if it was
            interrupted.

        Raises:
            ConfigError: If the workload refuses every combination.
        """
        lab = replace(self.lab, observe_only=True)
        asked = study.grid.configurations
        check_plan(self.repeats, num_configurations=len(asked))
        results: list[KnobResult] = []

        def conclude(store: ResultStore) -> None:
            results.append(conclude_knobs(store, study))
            if quality := score():  # takes minutes, and costs nobody the answer that there is
                results.append(conclude_knobs(store, study, quality))

        with lab.open() as sites:
            folder = lab.folder(f"{kind}-{study.grid.workload}", sites)
            trials = plan_sweep(
                folder.name,
                asked,
                repeats=self.repeats,
                sentinel=asked[0],
                sentinel_every=SENTINEL_EVERY,
                seed=self.order_seed,
                together=network_of,
            )
            summary = lab.carry_out(
                trials,
                sites,
                folder,
                settings=self,
                begin=lambda store: store.write_file(ASKED, KnobLog(study=study)),
                conclude=conclude,
            )
        report_of(ResultStore(folder), results[-1]).print(folder)
        tracked = lab.where_tracked(summary)
        Console().print(f"\n{tracked}", soft_wrap=True, highlight=False, markup=False)
        if summary.interrupted:
            return summary.exit_code
        return 0 if results[-1].complete else 1


def network_of(configuration: Configuration) -> Hashable:
    """Return what tells the network of ``configuration`` from others."""
    workload = WORKLOADS.of(configuration)
    return workload.network_key if isinstance(workload, NetworkWorkload) else configuration.knobs
