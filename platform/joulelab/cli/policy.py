"""``joulelab policy``: one clock, or a few, for a set of applications."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import RenderableType

from joulelab.analysis.policy import Application, Policy, applications_of, policies
from joulelab.analysis.policy_table import policy_fields, policy_frame, policy_table, policy_words
from joulelab.analysis.table import check_target
from joulelab.cli.terminal import Printing
from joulelab.errors import ConfigError
from joulelab.objectives import OBJECTIVES
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import DEFAULT_RESULTS, ResultStore, study_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCommand(Printing):
    """Choose one clock, or a few, for all applications that were swept on one kind of GPU.

    Every workload, set of knobs and phase is an application. Each counts by how far it is above
    its own least cost, so that long ones do not drown short ones.

    Attributes:
        results_dirs: Results folders of sweeps, or folders that hold several.
        objective: What is to be low: edp, ed2p, energy, time, or that of a plug-in.
        points: Choose policies of up to so many clocks.
        only: Words that the name of an application must contain one of; by default all count.
        out: Write the table to this .csv or .json file.
        plot: Draw the last policy into this .png or .svg file.
    """

    results_dirs: tyro.conf.Positional[tuple[Path, ...]] = (DEFAULT_RESULTS,)
    objective: str = "edp"
    points: int = 2
    only: tuple[str, ...] = ()
    out: Path | None = None
    plot: Path | None = None

    def run(self) -> int:
        """Choose, and print."""
        check_target(self.out, ".csv", ".json")
        check_target(self.plot, ".png", ".svg", option="--plot")
        applications = self._applications()
        found = policies(applications, most_points=self.points)
        self.show([policy_fields(policy) for policy in found], lambda: self._shown(found))
        self._write(applications, found)
        return 0

    def _applications(self) -> Sequence[Application]:
        folders = [study for folder in self.results_dirs for study in study_folders(folder)]
        measurements = [m for folder in folders for m in ResultStore(folder).read()]
        known = applications_of(measurements, self.objective)
        kept = [each for each in known if not self.only or any(w in each.name for w in self.only)]
        if len(kept) < 2:
            raise ConfigError(
                "A policy is for two applications or more; there are "
                f"{', '.join(each.name for each in known) or 'none'}, of which {len(kept)} count."
            )
        return kept

    def _shown(self, found: Sequence[Policy]) -> Iterator[RenderableType]:
        for policy in found:
            yield policy_words(policy, self.objective)
            yield policy_table(policy, self.objective)

    def _write(self, applications: Sequence[Application], found: Sequence[Policy]) -> None:
        if self.out is not None:
            table = policy_frame(found).to_pandas()
            if self.out.suffix == ".csv":
                write_whole(self.out, table.to_csv(index=False))
            else:
                write_whole(self.out, table.to_json(orient="records", indent=2))
        if self.plot is not None:
            from joulelab.analysis.policy_plot import save_policy_plot

            aim = OBJECTIVES[self.objective].label
            save_policy_plot(applications, found[-1], self.plot, aim=aim)
