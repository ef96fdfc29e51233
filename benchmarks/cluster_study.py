"""What a study on a cluster is carried out with, for benchmarks that start Ray themselves."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from joulelab.core.procedure import Procedure
from joulelab.study.events import StudyEvent
from joulelab.study.run import StudySetup
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site


def cluster_study(
    *,
    sites: Sequence[Site],
    results_dir: Path,
    procedure: Procedure,
    tracking_uri: str | None = None,
    on_event: Callable[[StudyEvent], None] = lambda event: None,
    **options: Any,
) -> StudySetup:
    """Set up a study of workloads of joulelab's; further options are those of the laboratory."""
    lab = Laboratory(procedure=procedure, tracking_uri=tracking_uri or "none", **options)
    return lab.setup(sites, results_dir.absolute(), (), settings=None, on_event=on_event)
