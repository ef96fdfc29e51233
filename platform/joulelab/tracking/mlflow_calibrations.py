"""Calibrations of boards in MLflow: each a version of a registered name, with its figures."""

from pathlib import Path
from tempfile import TemporaryDirectory

from joulelab.errors import ConfigError, TrackingError
from joulelab.hardware.board_facts import BoardFacts, board_text, read_board_facts
from joulelab.tracking.mlflow_registry import (
    ARTIFACT,
    VERSION_TAG,
    Kept,
    RegisteredModel,
    download,
    keep,
    reference,
)
from joulelab.workloads.disk_cache import digest, user_folder

_ABOUT = (
    "Calibrations of boards by joulelab: each run is a version of a registered name, with what "
    "was measured as metrics (uncertainties end in .u), and its file as an artifact."
)
_FILE = "board.json"


def register_calibration(uri: str, name: str, facts: BoardFacts) -> RegisteredModel:
    """Keep what was measured of a board as the next version of ``name`` in an MLflow store.

    Raises:
        ConfigError: If ``name`` is empty.
        TrackingError: If the store cannot be written.
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
            "joulelab.uuid": facts.device.uuid,
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

    A registered one is copied to a folder of the user's, and read before it is handed out.

    Raises:
        ConfigError: If there is no store, a version is no number, or its file no calibration.
        TrackingError: If the store has none of that name and version.
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
