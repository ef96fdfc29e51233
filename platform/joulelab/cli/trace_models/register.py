"""``joulelab models trace register``: put a trained trace model into MLflow's registry."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from joulelab.cli.registered import tell_registered
from joulelab.cli.trace_models.recordings import OfSamples
from joulelab.power_models.traces import load_trace_model
from joulelab.power_models.traces.validation import leave_one_trace_out
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.mlflow_trace_models import register_trace_model
from joulelab.tracking.reach import usable_uri

_EXAMPLE_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(OfSamples):
    """Register a trained trace model with signature, example, training domain and scores.

    Attributes:
        model: Folder that `joulelab models trace train` wrote.
        name: Name in the registry.
        tracking_uri: MLflow store: sqlite:////absolute/path.db or the address of a server. By
            default mlflow.db beside the model.
        scored: Score it with every recording held out in turn, which takes as many trainings.
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
            ConfigError: If the folder holds no model, or the model no interval.
            TrackingError: If the store cannot be written.
        """
        model, recordings = load_trace_model(self.model), self.recordings()
        uri = usable_uri(self.tracking_uri or embedded_uri(self.model.resolve().parent))
        example = recordings[0].schedule.part(0, _EXAMPLE_STEPS)
        scores = None
        if self.scored:
            unfitted = partial(model.unfitted, calibration_folds=0)
            scores = leave_one_trace_out(unfitted, recordings)
        made = register_trace_model(uri, self.name, model, example, scores=scores)
        tell_registered(made, uri, as_json=self.json)
        return 0
