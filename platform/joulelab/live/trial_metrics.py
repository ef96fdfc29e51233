"""What studies do on the GPUs of a machine, in OpenMetrics; no sample where nothing is known."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from joulelab.live.activity import Activity
from joulelab.tracking.study import StudyState


@dataclass(frozen=True, slots=True)
class TrialFamilies:
    """The families of one scrape that are about trials.

    Attributes:
        trial: Which trial a GPU measures.
        start: Since when.
        ended: How many its process has ended.
        energy: Energy in the windows of the trial that ended last.
        unit_energy: Its energy per unit of work.
        invalid: Why it has none.
        saved: Share of the energy that the best point so far saves on the board.
        added: Share of the time that it adds.
        planned: Trials of a study.
        done: Those that need no further try.
        failed: Those that were given up.
    """

    trial: InfoMetricFamily
    start: GaugeMetricFamily
    ended: CounterMetricFamily
    energy: GaugeMetricFamily
    unit_energy: GaugeMetricFamily
    invalid: GaugeMetricFamily
    saved: GaugeMetricFamily
    added: GaugeMetricFamily
    planned: GaugeMetricFamily
    done: GaugeMetricFamily
    failed: GaugeMetricFamily

    @classmethod
    def empty(cls, gpu_labels: tuple[str, ...]) -> "TrialFamilies":
        """Make them without samples, with the labels that every GPU has."""
        of_gpu = (*gpu_labels, "study")

        def of_trial(name: str, help_: str, *labels: str, unit: str = "") -> GaugeMetricFamily:
            full = f"joulelab_trial_{name}"
            return GaugeMetricFamily(full, help_, labels=(*of_gpu, *labels), unit=unit)

        def of_study(name: str, help_: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"joulelab_{name}", help_, labels=("hostname", "study"))

        return cls(
            trial=InfoMetricFamily("joulelab_trial", "What is measured now.", labels=gpu_labels),
            start=of_trial("start_timestamp", "When that trial began.", unit="seconds"),
            ended=CounterMetricFamily(
                "joulelab_trials_ended", "Trials that its process has ended.", labels=of_gpu
            ),
            energy=of_trial("energy", "In the windows of the last trial.", unit="joules"),
            unit_energy=of_trial(
                "unit_energy", "Per unit of work of the last trial.", "unit", unit="joules"
            ),
            invalid=of_trial("invalid", "1 while the last trial is invalid.", "reason"),
            saved=of_trial(
                "energy_saved",
                "What the point of least energy so far saves of that at the driver's clocks.",
                "point",
                unit="ratio",
            ),
            added=of_trial(
                "time_added",
                "What the point of least energy so far adds to the time at the driver's clocks.",
                "point",
                unit="ratio",
            ),
            planned=of_study("study_trials", "Trials of the study."),
            done=of_study("study_trials_done", "Trials that need no further try."),
            failed=of_study("study_trials_failed", "Trials given up without a measurement."),
        )

    def __iter__(self) -> Iterator[Metric]:
        of_gpu = (self.trial, self.start, self.ended, self.energy, self.unit_energy, self.invalid)
        of_study = (self.planned, self.done, self.failed)
        return iter((*of_gpu, self.saved, self.added, *of_study))

    def add(self, activity: Activity, gpu: tuple[str, ...]) -> None:
        """Add what is done on one GPU, whose labels are ``gpu``."""
        if (study := activity.study) is None:
            return
        labels = (*gpu, study)
        if activity.trial is not None:
            self.trial.add_metric(gpu, {"study": study, "trial": activity.trial})
            self.start.add_metric(labels, activity.since_unix_s)
        self.ended.add_metric(labels, activity.num_measured)
        if (last := activity.last) is not None and last.reason is not None:
            self.invalid.add_metric((*labels, last.reason.partition(":")[0]), 1)
        elif last is not None and last.energy_j is not None and last.energy_per_unit_j is not None:
            self.energy.add_metric(labels, last.energy_j)
            self.unit_energy.add_metric((*labels, last.unit), last.energy_per_unit_j)
        if (saving := activity.saving) is not None:
            self.saved.add_metric((*labels, saving.point), 1 - saving.energy_ratio)
            self.added.add_metric((*labels, saving.point), saving.time_ratio - 1)

    def add_study(self, state: StudyState, hostname: str) -> None:
        """Add how far a study is."""
        labels = (hostname, state.study)
        if state.num_trials is not None:
            self.planned.add_metric(labels, state.num_trials)
        self.done.add_metric(labels, state.num_done)
        self.failed.add_metric(labels, len(state.failed))
