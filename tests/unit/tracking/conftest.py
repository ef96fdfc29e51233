import pytest
from synthetic_results import header

from joulelab.tracking.base import embedded_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory):
    """A store with its tables and nothing in it, made by the tracker once."""
    folder = tmp_path_factory.mktemp("mlflow")
    MlflowTracker(embedded_uri(folder)).begin(header(name="made first"))
    return folder / "mlflow.db"
