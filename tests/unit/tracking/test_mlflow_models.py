import hashlib
import json
import pickle
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from synthetic_runs import runs_by_law

from joulelab.errors import ConfigError, TrackingError
from joulelab.power_models.decision import RegretScores
from joulelab.power_models.members.tabular import MeanModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.serving import frame_of_queries
from joulelab.power_models.validation import Validated, validate
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.mlflow_models import load_registered, register_model, split_metrics
from joulelab.tracking.mlflow_registry import check_ours, signature_of

# MLflow 3.17 asks SQLAlchemy 2.1 and pandas 3.1 for things that are on their way out.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]
RUNS = runs_by_law(10)
QUERIES = sweep(profile_of(RUNS, "a100_sxm", "app03"), [510.0, 1410.0])


def unfitted():
    return OperatingModel(power=MeanModel(), time=MeanModel("time_s"))


@cache
def scores():
    return validate(unfitted, RUNS, anchors=[()])


@pytest.fixture(scope="session")
def registered_store(fresh_store, tmp_path_factory):
    """A store with one registered model, made once; its uri, the model, and what it became."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(fresh_store, folder / "mlflow.db")
    uri = embedded_uri(folder)
    model = unfitted().fit(RUNS)
    return uri, model, register_model(uri, "a100", model, QUERIES, validated=scores())


@pytest.fixture
def artifact(registered_store, tmp_path):
    """A copy of the registered pyfunc, to be tampered with."""
    from mlflow import MlflowClient

    uri, _, _ = registered_store
    source = MlflowClient(uri, uri).get_model_version("a100", "1").source
    return Path(shutil.copytree(source.removeprefix("file://"), tmp_path / "model"))


def test_a_registered_model_answers_as_before(registered_store):
    uri, model, _ = registered_store

    again = load_registered(uri, "a100")

    for quantity in ("power_w", "edp_js"):
        assert (
            again.predict(QUERIES, quantity).tolist() == model.predict(QUERIES, quantity).tolist()
        )


def test_the_run_holds_scores_domain_and_origin(registered_store):
    from mlflow import MlflowClient

    uri, model, registered = registered_store
    client = MlflowClient(uri, uri)
    run = client.get_run(registered.run_id)

    error = run.data.metrics["application.cold.power_w.mean"]
    assert error == pytest.approx(scores()[0].errors["power_w"].mean)
    assert 0 < run.data.metrics["application.cold.energy_j.coverage"] <= 1
    assert run.data.metrics["application.cold.baseline.maximum_clock.regret.edp.mean"] > 0
    assert run.data.tags["joulelab.data_hash"] == model.power.data_hash
    assert "power member: mean" in run.data.tags["mlflow.note.content"]
    folder = Path(run.info.artifact_uri.removeprefix("file://"))
    domain = json.loads((folder / "training_domain.json").read_text())
    assert domain["power_w"]["gpus"] == ["a100_sxm"]
    assert client.get_model_version("a100", "1").tags["joulelab.power_member"] == "mean"
    assert run.info.status == "FINISHED"


def test_nothing_in_it_is_pickled_and_mlflow_can_serve_it(artifact, registered_store):
    import mlflow.pyfunc

    _, model, _ = registered_store

    served = mlflow.pyfunc.load_model(str(artifact))
    answer = served.predict(frame_of_queries(QUERIES), params={"level": 0.8})

    assert answer["power_w"].tolist() == model.predict(QUERIES, "power_w").tolist()
    assert served.metadata.signature.inputs.input_names()[:3] == ["application", "gpu", "board"]
    suffixes = {path.suffix for path in artifact.rglob("*") if path.is_file()}
    assert suffixes <= {"", ".json", ".npz", ".txt", ".yaml"}


def test_a_registered_model_says_what_it_is(registered_store):
    from mlflow import MlflowClient

    uri, model, _ = registered_store

    register_model(uri, "described", model, QUERIES)

    client = MlflowClient(uri, uri)
    told = client.get_registered_model("described").description
    assert "power member: mean" in told
    assert "gpus: a100_sxm" in told
    assert client.get_model_version("described", "1").description == told


def test_versions_count_up_and_the_newest_is_read(registered_store):
    uri, model, _ = registered_store
    other = unfitted().fit(runs_by_law(8, seed=5))

    second = register_model(uri, "counted", model, QUERIES)
    third = register_model(uri, "counted", other, QUERIES, level=0.8)

    assert (second.uri, third.uri) == ("models:/counted/1", "models:/counted/2")
    assert load_registered(uri, "counted").power.data_hash == other.power.data_hash
    assert load_registered(uri, "counted", 1).power.data_hash == model.power.data_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"loader_module": "mlflow.sklearn"},
        {"code": "code"},
        {"loader_module": "mlflow.pyfunc.model", "python_model": "python_model.pkl"},
    ],
)
def test_a_model_that_wants_foreign_code_is_not_loaded(artifact, changes):
    told = yaml.safe_load((artifact / "MLmodel").read_text())
    told["flavors"]["python_function"].update(changes)
    (artifact / "MLmodel").write_text(yaml.safe_dump(told))

    with pytest.raises(TrackingError, match="it was not loaded"):
        check_ours(artifact, "joulelab.power_models.serving")


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_among_the_arrays_does_not_run(registered_store, tmp_path):
    from mlflow import MlflowClient

    uri, model, _ = registered_store
    register_model(uri, "tampered", model, QUERIES)
    source = MlflowClient(uri, uri).get_model_version("tampered", "1").source
    (arrays,) = Path(source.removeprefix("file://")).rglob("power/arrays.npz")
    bomb = np.array([Bomb(tmp_path / "ran")], dtype=object)
    np.savez(arrays, coefficients=bomb)
    state = arrays.with_name("model.json")
    told = json.loads(state.read_text())
    told["sha256"]["arrays.npz"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    state.write_text(json.dumps(told))
    pickle.loads(pickle.dumps(Bomb(tmp_path / "shown to work")))

    with pytest.raises(ConfigError, match="allow_pickle"):
        load_registered(uri, "tampered")

    assert (tmp_path / "shown to work").exists()
    assert not (tmp_path / "ran").exists()


def test_a_model_that_another_version_wrote_is_told(registered_store):
    from mlflow import MlflowClient

    uri, model, _ = registered_store
    register_model(uri, "older", model, QUERIES)
    source = MlflowClient(uri, uri).get_model_version("older", "1").source
    (state,) = Path(source.removeprefix("file://")).rglob("time/model.json")
    told = json.loads(state.read_text())
    told["settings"]["depth"] = 3
    state.write_text(json.dumps(told))

    with pytest.raises(ConfigError, match=r"'older' version 1 must hold a whole model.*depth"):
        load_registered(uri, "older")


def test_what_is_not_registered_is_told(registered_store):
    uri, _, _ = registered_store

    with pytest.raises(TrackingError, match="no registered model 'b200'"):
        load_registered(uri, "b200")
    with pytest.raises(TrackingError, match="99"):
        load_registered(uri, "a100", 99)


def test_a_model_without_intervals_is_not_registered(registered_store):
    uri, _, _ = registered_store
    bare = OperatingModel(
        power=MeanModel(calibration_folds=0),
        time=MeanModel("time_s", calibration_folds=0),
    ).fit(RUNS)

    with pytest.raises(ConfigError, match="calibration_folds"):
        register_model(uri, "bare", bare, QUERIES)


def test_metrics_have_names_that_a_store_takes():
    regret = RegretScores(mean=0.01, median=0.0, worst=0.1)
    scores = Validated(
        kind="gpu",
        anchors=(1.0, 0.6),
        errors={},
        baselines={"best fixed clock": {"edp": regret}},
    )

    found = split_metrics([scores])

    assert found["gpu.anchors2.baseline.best_fixed_clock.regret.edp.worst"] == 0.1
    assert all(re.fullmatch(r"[\w.]+", name) for name in found)


def test_a_signature_requires_all_columns_but_the_optional_ones():
    signature = signature_of(
        texts=("name",), numbers=("clock",), optional=("limit",), answers=("power",), params={}
    )

    assert {each.name: each.required for each in signature.inputs} == {
        "name": True,
        "clock": True,
        "limit": False,
    }
