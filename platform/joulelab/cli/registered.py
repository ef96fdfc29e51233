"""How a model that was put into MLflow's registry is told."""

import json
from dataclasses import asdict

from joulelab.tracking.discreet import discreet
from joulelab.tracking.mlflow_registry import RegisteredModel


def tell_registered(made: RegisteredModel, tracking_uri: str, *, as_json: bool) -> None:
    """Print where a registered model is, as a line of text or as JSON."""
    if as_json:
        told = {**asdict(made), "uri": made.uri, "tracking_uri": discreet(tracking_uri)}
        print(json.dumps(told, indent=2))
    else:
        print(f"{made.uri} in {discreet(tracking_uri)}")
