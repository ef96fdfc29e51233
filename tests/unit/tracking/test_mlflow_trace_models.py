"""Models of power traces in MLflow."""

import shutil
from pathlib import Path

import pytest
from synthetic_traces import traces

from joulelab.errors import ConfigError, TrackingError
from joulelab.power_models.traces import TRACE_MODELS
from joulelab.power_models.traces.model import leave_one_trace_out
from joulelab.power_models.traces.serving import frame_of_schedule
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.mlflow_models import (
    load_registered,
    load_registered_trace_model,
    register_trace_model,
    trace_metrics,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]
RECORDINGS = traces(9, num_steps=30, noise=0.01)
EXAMPLE = RECORDINGS[0].schedule


@pytest.fixture(scope="module")
def uri(fresh_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace_models")
    shutil.copy(fresh_store, folder / "mlflow.db")
    return embedded_uri(folder)


@pytest.mark.parametrize("name", sorted(TRACE_MODELS))
def test_a_registered_trace_model_answers_as_before(uri, name):
    model = TRACE_MODELS[name](calibration_folds=2).fit(RECORDINGS)

    made = register_trace_model(uri, f"trace {name}", model, EXAMPLE)

    again = load_registered_trace_model(uri, f"trace {name}", made.version)
    assert again.predict_energy(EXAMPLE) == model.predict_energy(EXAMPLE)
    assert again.predict(EXAMPLE).tolist() == model.predict(EXAMPLE).tolist()


def test_mlflow_can_serve_it_and_its_run_says_what_it_is(uri):
    import mlflow.pyfunc
    from mlflow import MlflowClient

    model = TRACE_MODELS["state_machine_ar1"]().fit(RECORDINGS)
    scores = leave_one_trace_out(
        lambda: TRACE_MODELS["state_machine_ar1"](calibration_folds=0), RECORDINGS
    )

    made = register_trace_model(uri, "served", model, EXAMPLE, scores=scores)

    client = MlflowClient(uri, uri)
    run = client.get_run(made.run_id)
    source = Path(client.get_model_version("served", "1").source.removeprefix("file://"))
    told = mlflow.pyfunc.load_model(str(source)).predict(frame_of_schedule(EXAMPLE))
    assert run.data.metrics == pytest.approx(trace_metrics(scores))
    assert run.data.tags["joulelab.data_hash"] == model.data_hash
    assert run.data.tags["joulelab.trace_member"] == "state_machine_ar1"
    assert (source.parent / "training_domain.json").is_file()
    assert told["power_w"].to_numpy() == pytest.approx(model.predict(EXAMPLE))
    assert not [path for path in source.rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]


def test_a_trace_model_is_not_read_as_one_of_operating_points(uri):
    model = TRACE_MODELS["state_machine_ar1"]().fit(RECORDINGS)
    register_trace_model(uri, "mistaken", model, EXAMPLE)

    with pytest.raises(TrackingError, match="it was not loaded"):
        load_registered(uri, "mistaken")


def test_a_trace_model_without_intervals_is_not_registered(uri):
    model = TRACE_MODELS["state_machine_ar1"](calibration_folds=0).fit(RECORDINGS)

    with pytest.raises(ConfigError, match="calibration_folds"):
        register_trace_model(uri, "bare", model, EXAMPLE)
