"""An attribution as files, and as a run in MLflow."""

import json
from pathlib import Path

from joulelab.analysis.attributed.page import page
from joulelab.analysis.attributed.table import content, frame
from joulelab.attribution.attribution import Attribution
from joulelab.tracking.durable import write_whole

EXPERIMENT = "joulelab attribution"
"""Name of the MLflow experiment."""


def write_all(found: Attribution, folder: Path) -> tuple[Path, Path, Path]:
    """Write the page, the parts as CSV and everything as JSON; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"attribution.{kind}" for kind in ("html", "csv", "json"))
    write_whole(paths[0], page(found).encode())
    frame(found).write(paths[1])
    write_whole(paths[2], (json.dumps(content(found), indent=1) + "\n").encode())
    return paths[0], paths[1], paths[2]


def deliver(found: Attribution, uri: str, file: Path) -> None:
    """Log an attribution as a run with shares of components as metrics and a file.

    Raises:
        TrackingError: If the store does not answer, or refuses something.
    """
    from joulelab.tracking.mlflow_store import usable_uri
    from joulelab.tracking.mlflow_tracker import FinishedRun, log_run

    made = found.provenance
    ended = FinishedRun(
        experiment=EXPERIMENT,
        name=found.program,
        started_at=made.started_at,
        duration_s=found.seconds,
        params={"workload": found.program, "method": found.method, **found.knobs},
        metrics=_metrics(found),
        tags={
            "gpu": found.device.name,
            "gpu_uuid": found.device.uuid,
            "provenance.hostname": made.hostname,
            "provenance.joulelab_version": made.joulelab_version,
        },
        file=file,
        succeeded=all(phase.is_reconciled for phase in found.phases),
    )
    log_run(usable_uri(uri), ended)


def _metrics(found: Attribution) -> dict[str, float]:
    metrics = {"static_w": found.static_w}
    for phase in found.phases:
        name, work = phase.phase, phase.profile.work
        metrics[f"{name}.energy_per_unit_j"] = phase.energy_j / work
        metrics[f"{name}.closure"] = phase.closure
        for share in phase.by_component:
            part = share.name.replace(" ", "_")
            metrics[f"{name}.{part}.energy_per_unit_j"] = share.energy_j / work
    return metrics
