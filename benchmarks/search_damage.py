"""What kills cost a search: what is lost, made twice, or left locked."""

import json
import time
from collections import Counter
from collections.abc import Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from killed_search import NUM_TRIALS, Case

from joulelab.core.measurement import Measurement
from joulelab.devices.simulated import DriverStore
from joulelab.study.resume import history_of
from joulelab.study.schedule import MAX_TRIES
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.store import ResultStore

RESTORE_TIMEOUT_S = 15.0


@dataclass(slots=True, kw_only=True)
class Damage:
    """What the kills of one search cost.

    Attributes:
        case: The search.
        kills: How often it was killed, by whom and while what.
        lost: Measurements that were in the store once and are not any more, and trials that
            ended, or were given up, of which the strategy was not told.
        doubled: Trials, or repeats of a configuration, with two valid measurements.
        locked: GPUs with a clock still locked.
        num_trials: Trials that it made, those included that were killed too often.
        stopped_by: What ended it.
        same_answer: Whether it found what it finds undisturbed.
        apart: Logarithm of the cost of what it recommends over that of what it recommends
            undisturbed, as the undisturbed one expects it.
        details: What was found, in words.
    """

    case: Case
    kills: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    locked: tuple[str, ...] = ()
    num_trials: int = 0
    stopped_by: str = ""
    same_answer: bool = False
    apart: float = 0.0
    details: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether it made as many trials as it may, unless it needed fewer."""
        if self.stopped_by == "the strategy":
            return self.num_trials <= NUM_TRIALS
        return self.num_trials == NUM_TRIALS

    @property
    def clean(self) -> bool:
        """Whether the kills cost nothing but time."""
        return self.whole and self.same_answer and not (self.lost or self.doubled or self.locked)


def examine(folder: Path, damage: Damage, completed: Set[str]) -> list[Measurement]:
    """Find out what the kills of a search cost.

    Args:
        folder: Of the search.
        damage: Where to note it.
        completed: Measurements that were seen in the store while the search went on.

    Returns:
        What it measured.
    """
    with closing(ResultStore(folder / "results")) as store:
        known = store.read()
    gone = completed - {m.measurement_id for m in known}
    ended = history_of(known)
    done = json.loads((folder / "done").read_text())
    given_up = [trial for trial in ended.unfinished if trial.attempt >= MAX_TRIES]
    settled = (*ended.trials, *given_up)
    untold = Counter(trial.configuration.config_hash for trial in settled)
    untold.subtract(done["told"])
    damage.lost += [*gone, *(f"{n} of {name} not told" for name, n in untold.items() if n)]
    damage.num_trials = len(settled)
    damage.details += [
        f"{trial.name} was given up: it was killed {MAX_TRIES} times" for trial in given_up
    ]
    damage.stopped_by = done["stopped_by"]
    attempts = Counter((m.trial, m.phase) for m in known if m.valid)
    repeats = Counter((m.configuration, m.repeat) for m in known if m.valid)
    damage.doubled += [f"{trial} {n}" for (trial, _), n in attempts.items() if n > 1]
    damage.doubled += [
        f"{each.point.label} {each.config_hash[:6]} repeat {repeat}"
        for (each, repeat), n in repeats.items()
        if n > 1
    ]
    damage.locked = _locked(folder)
    if damage.case.tracked:
        damage.doubled += _tracked_wrongly(folder, known)
    return known


def _locked(folder: Path) -> tuple[str, ...]:
    """Return the GPUs whose clocks stay locked."""
    driver, deadline_s = DriverStore(folder / "driver"), time.monotonic() + RESTORE_TIMEOUT_S
    while driver.locked_uuids() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return driver.locked_uuids()


def _tracked_wrongly(folder: Path, known: Sequence[Measurement]) -> list[str]:
    """Return the measurements that MLflow does not have exactly once."""
    from mlflow import MlflowClient

    uri = embedded_uri(folder.parent)
    client = MlflowClient(tracking_uri=uri)
    [experiment] = [e for e in client.search_experiments() if e.name == folder.name]
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    nested = Counter(run.data.tags.get("joulelab.measurement_id", "parent") for run in runs)
    wanted = Counter(["parent", *(m.measurement_id for m in known)])
    return [
        f"{name}: {nested[name]} runs in MLflow"
        for name in {*nested, *wanted}
        if nested[name] != wanted[name]
    ]
