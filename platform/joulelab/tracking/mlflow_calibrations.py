"""Calibrations of boards in MLflow: each a version of a registered name, with its figures."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from joulelab.core.device import DeviceIdentity
from joulelab.errors import ConfigError, TrackingError
from joulelab.hardware.board_facts import BoardFacts, board_text, read_board_facts
from joulelab.tracking.addresses import database_path
from joulelab.tracking.mlflow_registry import (
    ARTIFACT,
    VERSION_TAG,
    Kept,
    RegisteredModel,
    download,
    keep,
    reference,
)
from joulelab.tracking.mlflow_store import open_client, reached
from joulelab.workloads.disk_cache import digest, user_folder

_ABOUT = (
    "Calibrations of boards by joulelab: each run is a version of a registered name, with what "
    "was measured as metrics (uncertainties end in .u), and its file as an artifact."
)
_FILE, _UUID = "board.json", "joulelab.uuid"
_log = logging.getLogger(__name__)


def register_calibration(uri: str, name: str, facts: BoardFacts) -> RegisteredModel:
    """Keep what was measured of a board as the next version of ``name`` in an MLflow store.

    Raises ConfigError if ``name`` is empty; TrackingError if the store cannot be written.
    """
    metrics: dict[str, float] = {}
    for each in facts.facts:
        if each.value is not None:
            metrics[each.name] = each.value
            metrics |= {} if each.u is None else {f"{each.name}.u": each.u}
    kept = Kept(
        experiment="calibrations",
        about=_ABOUT,
        head="A board of this machine, measured once; refused for any other.",
        tags={
            "joulelab.gpu": facts.device.name,
            _UUID: facts.device.uuid,
            "joulelab.driver": facts.device.driver_version,
            "joulelab.host": facts.host,
            "joulelab.measured_at": facts.measured_at,
            VERSION_TAG: facts.joulelab_version,
        },
        metrics=metrics,
    )
    return keep(uri, name, kept, lambda folder: _write(folder / ARTIFACT, facts))


def _write(folder: Path, facts: BoardFacts) -> None:
    folder.mkdir()
    (folder / _FILE).write_text(board_text(facts), encoding="utf-8")


def calibration_file(where: str | Path, uri: str | None) -> Path:
    """Return the file of a calibration: the one named, or that of ``models:/NAME[/VERSION]``.

    A registered one is copied to a folder of the user's, and read before it is handed out. Raises
    ConfigError if there is no store, a version is no number, or its file no calibration;
    TrackingError if the store has none of that name and version.
    """
    if (asked := reference(str(where))) is None:
        return Path(where)
    if uri is None:
        raise ConfigError(
            f"{where} is in an MLflow store, but there is none: name one, or the file that "
            "joulelab calibrate --board wrote."
        )
    own = user_folder("calibrations")
    own.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=own) as draft:
        folder, version = download(uri, *asked, Path(draft))
        kept = folder / _FILE
        if not kept.is_file():
            raise TrackingError(
                f"models:/{asked[0]}/{version} must be a calibration that joulelab calibrate "
                f"--board --register kept, but has no {_FILE}."
            )
        read_board_facts(kept)
        return kept.replace(own / f"{asked[0]}-{version}-{digest(kept.read_text())}.json")


def own_calibration(uri: str, device: DeviceIdentity, host: str) -> BoardFacts | None:
    """Return the newest calibration in a store of this board, driver and host; ``None`` without.

    One of the board with another driver or host is not taken, nor is one that cannot be read, as a
    store may be down; the log names the difference.
    """
    try:
        if (where := _newest(uri, device.uuid)) is None:
            return None
        facts = read_board_facts(calibration_file(where, uri))
        facts.check(device, host)
    except (ConfigError, TrackingError) as error:
        _log.warning("No calibration of the store is taken: %s", error)
        return None
    _log.info("%s, measured %s, is taken for the board.", where, facts.measured_at)
    return facts


def _newest(uri: str, uuid: str) -> str | None:
    """Return the address of the newest calibration of a board; ``None`` if there is none."""
    if (path := database_path(uri)) is not None and not _has_any(path):
        return None
    with reached(uri):
        found = open_client(uri).search_model_versions(f"tags.`{_UUID}` = '{uuid}'")
    if not found:
        return None
    newest = max(found, key=lambda version: int(version.creation_timestamp))
    return f"models:/{newest.name}/{newest.version}"


def _has_any(path: Path) -> bool:
    """Whether an embedded store has a calibration; MLflow takes seconds to begin."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
            asked = "SELECT 1 FROM model_version_tags WHERE key = ? LIMIT 1"
            return store.execute(asked, (_UUID,)).fetchone() is not None
    except sqlite3.Error as error:
        raise TrackingError(f"MLflow store {path}: {error}") from error
