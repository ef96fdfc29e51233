"""What MLflow's table of runs shows: energy, time and what was asked for, not runs' sources alone.

MLflow keeps the state of that page in the browser, but for one that somebody shares: this lies in a
tag of the experiment, and an address names it by its key.
"""

import json

VIEW = "joulelab"
"""Key of the view in addresses: ``viewStateShareKey=joulelab``."""
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_PARAMS = ("sm_clock_mhz", "power_limit_w", "batch", "precision")
_METRICS = (
    *("energy_per_unit_j", "time_per_unit_s", "power_w", "edp_js"),
    *("cost_ratio", "energy_ratio", "time_ratio"),
)


def opening_tags() -> dict[str, str]:
    """Return the tags of an experiment that has MLflow open it so; columns no run fills are empty.

    Without its kind, MLflow takes it for one of language models and shows an empty overview.
    """
    columns = [
        *(f"metrics.`{name}`" for name in _METRICS),
        *(f"params.`{name}`" for name in _PARAMS),
    ]
    view = json.dumps({"selectedColumns": columns})
    return {"mlflow.experimentKind": "custom_model_development", VIEW_TAG: view}
