"""What it costs to keep a measurement: in the store, and in an embedded MLflow."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from figures import Figure

from joulelab import Configuration, EnergyWindow, Measurement, PowerTrace
from joulelab.core.device import Activity, DeviceIdentity
from joulelab.core.measurement import Observed, Provenance
from joulelab.core.record import Record
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader

NUM = 330


def figures() -> list[Figure]:
    """Store and deliver the measurements of a sweep of 110 clocks with 3 repeats."""
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder) / "study")
        first = _record()
        store.write_study(
            StudyHeader(
                name="cost", sweep_id="cost", command=(), settings=(),
                provenance=first.measurement.provenance,
            )
        )  # fmt: skip
        store.append(first)  # pyarrow is imported by the first
        appends_s = [_append_s(store, first, i) for i in range(1, NUM)]
        tracker = MlflowTracker(embedded_uri(Path(folder)))
        start_s = time.process_time()
        report = deliver(store, tracker)
        deliver_s = time.process_time() - start_s
    if report.num_delivered != NUM:
        raise SystemExit(f"{report.num_left} of {NUM} were not delivered: {report.error}")
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


def _append_s(store: ResultStore, first: Record, i: int) -> float:
    record = replace(first, measurement=replace(first.measurement, measurement_id=f"m{i}"))
    start_s = time.perf_counter()
    store.append(record)
    return time.perf_counter() - start_s


def _record() -> Record:
    t_s = np.arange(600) * 0.02
    return Record(
        trace=PowerTrace(t_s=t_s, power_w=690 + np.random.default_rng(0).normal(0, 3, 600)),
        measurement=Measurement(
            measurement_id="m0",
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
