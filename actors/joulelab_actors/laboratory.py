"""Where a study runs, on what, and where its results go: the settings all experiments share."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from joulelab.cli.selection import check_guard_socket
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices import DEVICES
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.discreet import HIDDEN, connectable, discreet
from joulelab.tracking.durable import check_file_name, check_folder
from joulelab.tracking.reach import usable_uri
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study_lock import StudyLock
from joulelab_actors.ledger import StudySummary
from joulelab_actors.placement import Site, find_sites, simulated_sites
from joulelab_actors.progress import StudyProgress
from joulelab_actors.session import connected
from joulelab_actors.study import run_study

Backend = Literal["nvml", "dcgm", "smi", "simulated", "replay"]
MOST_GPUS = 1024
"""More simulated ones at once are a slip of the hand."""


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """GPUs, the procedure, and a place for results.

    Attributes:
        device: How to reach the GPUs: nvml is real ones through NVIDIA's driver; dcgm and smi
            are fallbacks for it; simulated needs no GPU; replay plays recorded ones.
        gpu: Product in the catalogue that simulated GPUs imitate.
        num_gpus: GPUs to use; by default 4 simulated ones, or all real ones.
        store: Folder with the state of simulated GPUs, or with the recordings to replay.
        study: Name of the study. Say the name of an earlier one to go on with it; by default
            a new one named by the time.
        results_dir: Folder for the results of all studies.
        tracking_uri: MLflow store; by default an embedded one in the results folder, and
            "none" for none.
        observe_only: Call no setter of the GPU, ever: measure at the driver's own clocks.
        guard_socket: Where the nodes' clock guards listen; by default the system's, or else one
            that is started for it.
        procedure: How each measurement is made.
    """

    device: Backend = "simulated"
    gpu: str = "h200_sxm"
    num_gpus: int | None = None
    store: Path | None = None
    study: str | None = None
    results_dir: Path = Path("~/joulelab-results")
    tracking_uri: str | None = None
    observe_only: bool = False
    guard_socket: Path | None = None
    procedure: Procedure = field(default_factory=Procedure)

    def __post_init__(self) -> None:
        if self.study is not None:
            check_file_name("study", self.study)
        if self.num_gpus is not None and not 1 <= self.num_gpus <= MOST_GPUS:
            raise ConfigError(f"num_gpus must be within 1 and {MOST_GPUS}, got {self.num_gpus}.")

    @contextmanager
    def open(self) -> Generator[tuple[Site, ...]]:
        """Take the study, if it is named, hold a connection to Ray, and yield the GPUs to use.

        What can be refused without Ray is refused before it starts.

        Raises:
            ConfigError: If the results cannot be written, delivered, or are those of a study that
                is under way; if fewer GPUs than asked for are there, or they are of several
                products, whose results cannot be compared.
            DeviceNotFoundError: If there are none.
        """
        with ExitStack() as stack:
            self._check_places()
            if self.study is not None:
                stack.enter_context(StudyLock(self.study_dir(self.study)))
                self._check_same_store(self.study)
            stack.enter_context(connected())
            yield self._sites()

    def run(
        self,
        trials: Sequence[Trial],
        sites: Sequence[Site],
        *,
        settings: object,
        conclude: Callable[[ResultStore], None] | None = None,
    ) -> StudySummary:
        """Measure ``trials`` on ``sites`` and show how far it is."""
        with StudyProgress() as progress:
            return run_study(
                trials,
                sites=sites,
                results_dir=self.study_dir(trials[0].study),
                procedure=self.procedure,
                observe_only=self.observe_only,
                guard_socket=self.guard_socket,
                tracking_uri=self.store_uri,
                settings=settings,
                conclude=conclude,
                on_event=progress,
            )

    def study_name(self, kind: str, sites: Sequence[Site]) -> str:
        """Return the name of the study: as given, or made of its kind, its GPU and the time."""
        if self.study is not None:
            return self.study
        product = sites[0].identity.name.removeprefix("NVIDIA ").replace(" ", "-").lower()
        return f"{kind}-{product}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"

    def study_dir(self, study: str) -> Path:
        """Return the folder of one study's results."""
        return self._root / study

    def where_tracked(self, summary: StudySummary) -> str:
        """Return where all studies can be compared, as a line to print; empty without such a place.

        Args:
            summary: The study's, which knows what MLflow has got.
        """
        if self.store_uri is None:
            return ""
        report = summary.delivery
        if report is not None and report.error is not None:
            folder = self.study_dir(summary.study)
            has = f"{report.num_delivered} runs" if report.num_delivered else "nothing"
            return (
                f"MLflow has {has} of this study. Once it answers: joulelab sync "
                f"{discreet(str(folder))}{self._given_uri}"
            )
        pages = self.tracking_uri or f"python -m joulelab.tracking.ui {self.results_dir}"
        return f"All runs in MLflow: {discreet(pages)}"

    @property
    def store_uri(self) -> str | None:
        """MLflow store that results are delivered to; ``None`` for none."""
        if self.tracking_uri == "none":
            return None
        return self.tracking_uri or embedded_uri(self._root)

    @property
    def _given_uri(self) -> str:
        """What ``joulelab sync`` has to be told, since it is not stored."""
        hidden = HIDDEN in discreet(self.tracking_uri or "")
        return " --tracking-uri URI, with its password" if hidden else ""

    def _check_places(self) -> None:
        """Refuse places that cannot be used, before anything is made there."""
        check_folder(self._root)
        if self.store_uri is not None:
            usable_uri(self.store_uri)
        if self.device == "simulated":
            GPUS[self.gpu]
        if os.environ.get("RAY_ADDRESS"):  # what follows may be on other machines
            return
        check_guard_socket(self.guard_socket)
        store = self._store
        if self.device == "simulated" and store is not None:
            check_folder(Path(store))
        if self.device == "replay" and (store is None or not Path(store).is_dir()):
            DEVICES["replay"].discover(store)

    def _check_same_store(self, study: str) -> None:
        """Refuse to go on with a study elsewhere because its store's password is not kept."""
        header = ResultStore(self.study_dir(study)).read_study()
        if self.tracking_uri is None and header is not None and header.tracking_uri is not None:
            connectable(header.tracking_uri)

    @property
    def _root(self) -> Path:
        return self.results_dir.expanduser().absolute()

    @property
    def _store(self) -> str | None:
        return None if self.store is None else str(self.store.expanduser().absolute())

    def _sites(self) -> tuple[Site, ...]:
        store = self._store
        if self.device == "simulated":
            return simulated_sites(self.gpu, 4 if self.num_gpus is None else self.num_gpus, store)
        sites = find_sites(self.device, store)
        if self.num_gpus is not None and not 1 <= self.num_gpus <= len(sites):
            raise ConfigError(
                f"num_gpus must be within 1 and {len(sites)}, the GPUs of the cluster, "
                f"got {self.num_gpus}."
            )
        sites = sites[: self.num_gpus]
        if len(products := sorted({site.identity.name for site in sites})) > 1:
            raise ConfigError(
                f"One study compares GPUs of one product, but the cluster has {products}; "
                "restrict the allocation to one of them."
            )
        return sites
