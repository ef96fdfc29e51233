"""``joulelab models register``: put a trained model into MLflow's registry, with its scores."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.cli.power_models.table import OfTable
from joulelab.cli.registered import tell_registered
from joulelab.power_models.artifacts import load_operating_model
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.runs import Runs
from joulelab.power_models.validation import Validated, validate
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.mlflow_models import register_model
from joulelab.tracking.reach import usable_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(OfTable):
    """Register a trained model with signature, example, training domain, data hash and scores.

    Attributes:
        model: Folder that `joulelab models train` wrote.
        name: Name in the registry.
        tracking_uri: MLflow store: sqlite:////absolute/path.db or the address of a server. By
            default mlflow.db beside the model.
        scored: Score it with every application held out in turn, which takes as many trainings.
        json: Print one JSON object instead of text.
    """

    model: tyro.conf.Positional[Path]
    name: str
    tracking_uri: str | None = None
    scored: bool = False
    json: bool = False

    def run(self) -> int:
        """Register and tell.

        Returns:
            0.

        Raises:
            ConfigError: If the folder holds no model.
            TrackingError: If the store cannot be written.
        """
        model, runs = load_operating_model(self.model), self.read()
        uri = usable_uri(self.tracking_uri or embedded_uri(self.model.resolve().parent))
        example = sweep(profile_of(runs, *runs.pairs[0]))
        validated = _scores(model, runs) if self.scored else ()
        made = register_model(uri, self.name, model, example, validated=validated)
        tell_registered(made, uri, as_json=self.json)
        return 0


def _scores(model: OperatingModel, runs: Runs) -> list[Validated]:
    """Score models of the same settings, each trained without the application asked about."""
    return validate(
        lambda: OperatingModel(power=model.power.unfitted(), time=model.time.unfitted()), runs
    )
