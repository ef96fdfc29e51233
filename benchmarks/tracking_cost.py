#!/usr/bin/env python
"""What it costs to keep a measurement: in the store, and in MLflow.

Usage: python benchmarks/tracking_cost.py [--uri 'postgresql://USER@HOST/DB?artifacts=/FOLDER']

By default MLflow's database is SQLite in a folder of the benchmark's own. The rate is that of four
processes which deliver a study each to one database, once all have imported MLflow; a run has 50
metrics.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import tyro
from figures import Figure, print_figures

from joulelab import Configuration, EnergyWindow, Measurement, PowerTrace
from joulelab.core.device import Activity, DeviceIdentity
from joulelab.core.measurement import Observed, Provenance
from joulelab.core.record import Record
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader
from joulelab.tracking.vocabulary import metrics

NUM = 330
NUM_WRITERS, NUM_OF_WRITER = 4, 500
NUM_METRICS = 50
_WRITER = """
import sys, time
from pathlib import Path
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_store import open_client
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
open_client(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
start_s = time.process_time()
report = deliver(ResultStore(Path(sys.argv[1]), "writer"), MlflowTracker(sys.argv[2]))
print(report.num_left, report.error, flush=True)
print(time.process_time() - start_s, flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        uri: MLflow's database; by default an embedded one.
    """

    uri: str | None = None


def figures(settings: Settings | None = None) -> list[Figure]:
    """Store and deliver the measurements of a sweep of 110 clocks with 3 repeats."""
    given = (settings or Settings()).uri
    with tempfile.TemporaryDirectory() as folder:
        uri = given or embedded_uri(Path(folder))
        store, appends_s = _stored(Path(folder) / "study", NUM)
        start_s = time.process_time()
        report = deliver(store, MlflowTracker(uri))
        deliver_s = time.process_time() - start_s
        if report.num_delivered != NUM:
            raise SystemExit(f"{report.num_left} of {NUM} were not delivered: {report.error}")
        return [*_costs(appends_s, deliver_s), *_of_writers(Path(folder), uri)]


def _stored(folder: Path, num: int) -> tuple[ResultStore, list[float]]:
    """Store measurements of a study; return how long each took."""
    store, first = ResultStore(folder), record_of(folder.name)
    store.write_study(
        StudyHeader(
            name="cost", sweep_id=f"{folder.name}-{time.time_ns()}", command=(), settings=(),
            provenance=first.measurement.provenance,
        )
    )  # fmt: skip
    store.append(first)  # pyarrow is imported by the first
    return store, [_append_s(store, first, f"{folder.name}-{i}") for i in range(1, num)]


def _of_writers(folder: Path, uri: str) -> Iterator[Figure]:
    """Have several processes deliver to one database at once."""
    studies = [folder / f"writer-{number}" for number in range(NUM_WRITERS)]
    for study in studies:
        _stored(study, NUM_OF_WRITER)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, study, uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for study in studies
    ]
    for writer in writers:
        writer.stdout.readline()
    start_s = time.monotonic()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate()[0].splitlines() for writer in writers]
    duration_s = time.monotonic() - start_s
    if [lines[0] for lines in said] != ["0 None"] * NUM_WRITERS:
        raise SystemExit(f"Not all was delivered: {said}")
    num = NUM_WRITERS * NUM_OF_WRITER
    of_what = f"{NUM_WRITERS} writers of {NUM_OF_WRITER} runs of {NUM_METRICS} metrics"
    how = f"{num / duration_s:.0f} runs/s of {of_what}, {uri.partition(':')[0]}"
    yield Figure(
        name="delivery of a run to an MLflow database by four writers at once, wall time",
        measured=1e3 * duration_s / num,
        promised=20.0,
        unit="ms",
        how=how,
    )
    yield Figure(
        name="delivery of a run to an MLflow database, CPU of its writer",
        measured=1e3 * sum(float(lines[1]) for lines in said) / num,
        promised=10.0,
        unit="ms",
        how=how,
    )


def _costs(appends_s: list[float], deliver_s: float) -> list[Figure]:
    how = f"{NUM} measurements with traces of 600 samples"
    return [
        Figure(
            name="median append to the store, durable",
            measured=1e3 * median(appends_s),
            promised=5.0,
            unit="ms",
            how=how,
        ),
        Figure(
            name="delivery to MLflow, CPU, imports and new store included",
            measured=deliver_s,
            promised=20.0,
            unit="s",
            how=how,
        ),
    ]


def _append_s(store: ResultStore, first: Record, name: str) -> float:
    record = replace(first, measurement=replace(first.measurement, measurement_id=name))
    start_s = time.perf_counter()
    store.append(record)
    return time.perf_counter() - start_s


def record_of(name: str) -> Record:
    """Return a record whose run has 50 metrics, with some figures of the program's own."""
    record = _plain_record(name)
    num_own = NUM_METRICS - len(metrics(record.measurement))
    own = tuple((f"own_{number:02}", 1.5 * number) for number in range(num_own))
    return replace(record, measurement=replace(record.measurement, figures=own))


def _plain_record(name: str) -> Record:
    t_s = np.arange(600) * 0.02
    return Record(
        trace=PowerTrace(t_s=t_s, power_w=690 + np.random.default_rng(0).normal(0, 3, 600)),
        measurement=Measurement(
            measurement_id=f"{name}-0",
            study="cost",
            trial="default-r0",
            configuration=Configuration.of("gemm", {"size": 8192, "precision": "bf16"}),
            phase="gemm",
            unit="TFLOP",
            device=DeviceIdentity(
                uuid="GPU-0", name="A GPU", backend="simulated", driver_version="580.0"
            ),
            windows=tuple(
                EnergyWindow(
                    start_s=2.0 * i, duration_s=2.0, energy_j=1380.0 + i, energy_u_j=2.0,
                    source="counter", work=1500.0,
                )
                for i in range(3)
            ),
            idle=None,
            observed=Observed(sm_clock_mhz=1440.0, activity=Activity(sm_active=0.95)),
            findings=(),
            provenance=Provenance(
                joulelab_version="0", git_sha=None, hostname="here", python_version="3",
                started_at="2026-11-20T12:00:00+00:00",
            ),
        ),
    )  # fmt: skip


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
