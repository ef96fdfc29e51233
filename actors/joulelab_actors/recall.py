"""What an actor had stored of a trial before it died."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joulelab.core.measurement import Measurement
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.tracking.codec import measurement_from_json
from joulelab.tracking.durable import read_lines
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload


def workload_of(trial: Trial) -> Workload[Any]:
    """Make the workload that ``trial`` asks for; it costs nothing until it is prepared.

    Raises:
        ConfigError: If there is no such workload, or it cannot take the knobs.
    """
    configuration = trial.configuration
    return WORKLOADS[configuration.workload].from_knobs(dict(configuration.knobs))


def stored_records(store: ResultStore, writer: str, trial: Trial) -> tuple[Record, ...]:
    """Return the records of this attempt of ``trial`` if ``writer`` stored all of them.

    An actor stores before it reports, so one that was killed in between has done its trial.
    Half a trial counts as none: its phases belong together and are measured again together.
    """
    path = store.folder / "measurements" / f"{writer}.jsonl"
    found = {m.phase: m for m in _stored(path, trial)} if path.exists() else {}
    if set(found) != set(workload_of(trial).phases):
        return ()
    return tuple(_with_trace(store, measurement) for measurement in found.values())


def _stored(path: Path, trial: Trial) -> Iterator[Measurement]:
    wanted = f'"trial":{json.dumps(trial.name)}'.encode()
    for _, line in read_lines(path):
        if wanted in line:
            measurement = measurement_from_json(line)
            if (measurement.study, measurement.attempt) == (trial.study, trial.attempt):
                yield measurement


def _with_trace(store: ResultStore, measurement: Measurement) -> Record:
    has_trace = store.trace_path(measurement.measurement_id).exists()
    trace = store.read_trace(measurement.measurement_id) if has_trace else None
    return Record(measurement=measurement, trace=trace)
