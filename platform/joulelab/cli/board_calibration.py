"""What was measured of a board, for the commands that ask power models about it."""

from dataclasses import dataclass
from pathlib import Path

from joulelab.core.device import DeviceIdentity
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts, read_board_facts
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.power_models.operating_model import OperatingModel
from joulelab.tracking.mlflow_calibrations import calibration_file, own_calibration
from joulelab.tracking.mlflow_registry import store_of
from joulelab.tracking.store import read_studies


@dataclass(frozen=True, kw_only=True)
class OnBoard:
    """Options of commands that ask power models about one board."""

    # File of the board that `joulelab calibrate --board` wrote, or models:/NAME that it registered:
    # the models' law takes the board's own constants. By default the newest of the board, driver
    # and host of a results folder that the store has.
    calibration: Path | None = None
    # MLflow store of registered models and calibrations; by default that of studies.
    tracking_uri: str | None = None

    def on_board(
        self, model: OperatingModel, gpu: str, board: str, table: Path | None = None
    ) -> OperatingModel:
        """Return ``model`` with what was measured of the board with the label ``gpu``.

        ``board`` is its kind; ``table`` is where its runs are, of which a results folder says on
        which board they ran.

        Raises:
            ConfigError: If the calibration is of another kind, or of another board, driver or host
                than the runs; or if the models have no law.
        """
        ran_on = _ran_on(table, gpu)
        if (facts := self._facts(ran_on)) is None:
            return model
        spec = spec_of_boards(facts.device.name)
        if spec is None or spec.key != board:
            raise ConfigError(
                f"The calibration must be of the kind of GPU that is asked about, {board}, but is "
                f"of {facts.device.name}."
            )
        return model.on_board(gpu, facts)

    def _facts(self, ran_on: list[tuple[DeviceIdentity, str]]) -> BoardFacts | None:
        if self.calibration is not None:
            uri = store_of(self.tracking_uri)
            facts = read_board_facts(calibration_file(self.calibration, uri))
            for device, host in ran_on:
                facts.check(device, host)
            return facts
        if len(ran_on) != 1:
            return None
        return own_calibration(store_of(self.tracking_uri), *ran_on[0])


def _ran_on(table: Path | None, gpu: str) -> list[tuple[DeviceIdentity, str]]:
    if table is None or not table.is_dir():
        return []
    found = {}
    for each in read_studies(table):
        device, host = each.device, each.provenance.hostname
        if device.name == gpu:
            found[device.uuid, device.driver_version, device.vbios_version, host] = device, host
    return list(found.values())
