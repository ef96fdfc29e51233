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


def view_state() -> str:
    """Return the page's state as MLflow reads it; columns that no run fills stay empty."""
    columns = [
        *(f"metrics.`{name}`" for name in _METRICS),
        *(f"params.`{name}`" for name in _PARAMS),
    ]
    return json.dumps({"selectedColumns": columns})
