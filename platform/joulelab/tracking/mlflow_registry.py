"""MLflow's registry for models that are data: written as pyfuncs, read back without running them.

A registered model is a pyfunc of JSON, npz and native files with a loader module of this package;
MLflow can serve it. :func:`fetched` hands out those files alone: it neither unpickles anything
nor imports what a store names, so that a store may belong to somebody else.
"""

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.addresses import discreet
from joulelab.tracking.mlflow_database import mlflow_uri
from joulelab.tracking.mlflow_store import (
    DESCRIPTION,
    experiment_id,
    log_values,
    open_client,
    reached,
)

EXPERIMENT = "power models"
_ABOUT = (
    "Power models of joulelab: each run is a version of a registered model, with the errors of "
    "every split as metrics, and its training domain and files as artifacts."
)
_ARTIFACT = "model"
VERSION_TAG = "joulelab.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A version of a registered model, from 1, and the run with its metrics, tags and files."""

    name: str
    version: int
    run_id: str

    @property
    def uri(self) -> str:
        """Address for MLflow's own tools."""
        return f"models:/{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pyfunc:
    """A model as MLflow keeps it."""

    loader: str  # module of this package that MLflow loads it with
    files: str  # name of the folder that save is given
    save: Callable[[Path], None]
    signature: Any  # what it is asked and answers
    example: Any  # a table as it is asked
    tags: Mapping[str, str]  # of the run, the version and the pyfunc
    domain: Mapping[str, Any]  # training domain
    metrics: Mapping[str, float]


def signature_of(
    *,
    texts: Sequence[str],
    numbers: Sequence[str],
    optional: Sequence[str] = (),
    answers: Sequence[str],
    params: Mapping[str, float | str],
) -> Any:
    """Return MLflow's signature of a served table model.

    It is asked with columns of texts and of numbers, some of them optional, and answers with
    columns of numbers and one that says what is outside of the training domain. ``params`` may be
    asked besides, and hold otherwise.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

    number, text = DataType.double, DataType.string
    asked: list[ColSpec | TensorSpec] = [ColSpec(text, name) for name in texts]
    asked += [ColSpec(number, name) for name in numbers]
    asked += [ColSpec(number, name, required=False) for name in optional]
    specs = [
        ParamSpec(name, text if isinstance(value, str) else number, value)
        for name, value in params.items()
    ]
    return ModelSignature(
        inputs=Schema(asked),
        outputs=Schema([*(ColSpec(number, name) for name in answers), ColSpec(text, "outside")]),
        params=ParamSchema(specs),
    )


def registered(uri: str, name: str, model: Pyfunc) -> RegisteredModel:
    """Write a model as the next version of ``name``, with a run that holds its metrics.

    Raises:
        ConfigError: If ``name`` is empty.
        TrackingError: If the store cannot be written.
    """
    if not name.strip():
        raise ConfigError("A registered model needs a name, got an empty one.")
    tags = {**model.tags, VERSION_TAG: installed_version("joulelab")}
    note = _described(tags)
    with reached(uri), tempfile.TemporaryDirectory() as folder:
        client = open_client(uri)
        made = client.create_run(
            experiment_id(client, uri, EXPERIMENT, _ABOUT),
            tags={**tags, DESCRIPTION: note},
            run_name=name,
        ).info
        try:
            _write(Path(folder), model, tags)
            client.log_artifacts(made.run_id, folder)
            log_values(client, made.run_id, {}, model.metrics, round(1000 * time.time()))
        except BaseException:
            client.set_terminated(made.run_id, "FAILED")
            raise
        client.set_terminated(made.run_id, "FINISHED")
        _make_name(client, name, note)
        source = f"{made.artifact_uri}/{_ARTIFACT}"
        version = client.create_model_version(name, source, made.run_id, tags, description=note)
    return RegisteredModel(name=name, version=int(version.version), run_id=made.run_id)


@contextmanager
def fetched(
    uri: str, name: str, version: int | None, *, loader: str, files: str
) -> Generator[Path]:
    """Hand out the folder that a registered model was saved to, checked and on this machine.

    Raises:
        TrackingError: If there is no such version, the store cannot be read, or what is
            registered wants to be loaded by foreign code.
        ConfigError: If its files hold no model.
    """
    with reached(uri), tempfile.TemporaryDirectory() as folder:
        client = open_client(uri)
        if version is None:
            known = [int(v.version) for v in client.search_model_versions(f"name='{name}'")]
            if not known:
                raise TrackingError(f"The store {discreet(uri)} has no registered model {name!r}.")
            version = max(known)
        from mlflow.artifacts import download_artifacts

        source = client.get_model_version_download_uri(name, str(version))
        kept = Path(
            download_artifacts(artifact_uri=source, dst_path=folder, tracking_uri=mlflow_uri(uri))
        )
        check_ours(kept, loader)
        try:
            yield kept / "data" / files
        except ConfigError as error:
            raise ConfigError(
                f"{name!r} version {version} must hold a whole model as this version of joulelab "
                f"keeps it; train and register it anew. {error}"
            ) from error


def check_ours(folder: Path, loader: str) -> None:
    """Check that a pyfunc in ``folder`` needs nothing but ``loader``, of this package.

    Raises:
        TrackingError: If it names another loader, brings code, or is no pyfunc.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        flavors = yaml.safe_load((folder / "MLmodel").read_text())["flavors"]
        pyfunc: Mapping[str, Any] = flavors["python_function"]
        named, code = pyfunc["loader_module"], pyfunc.get("code")
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise TrackingError(f"{folder} must hold a pyfunc's MLmodel file: {error}.") from error
    if named != loader or code or set(flavors) != {"python_function"}:
        raise TrackingError(
            f"A power model is loaded by {loader} and brings no code, got loader {named!r}, "
            f"code {code!r} and flavors {sorted(flavors)}; it was not loaded."
        )


def _write(folder: Path, model: Pyfunc, tags: Mapping[str, str]) -> None:
    with warnings.catch_warnings():
        # MLflow warns about the type hints of its own classes.
        warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
        import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as draft:
        files = Path(draft) / model.files
        model.save(files)
        mlflow.pyfunc.save_model(
            folder / _ARTIFACT,
            loader_module=model.loader,
            data_path=str(files),
            signature=model.signature,
            input_example=model.example,
            pip_requirements=[f"joulelab=={tags[VERSION_TAG]}"],
            metadata=dict(tags),
        )
    (folder / "training_domain.json").write_text(json.dumps(model.domain, indent=1) + "\n")


def _described(tags: Mapping[str, str]) -> str:
    """Say what a model is in the words of its tags."""
    lines = (f"- {name.removeprefix('joulelab.').replace('_', ' ')}: {tags[name]}" for name in tags)
    head = "A model of joulelab, which answers only within its training domain."
    return "\n".join((head, "", *lines))


def _make_name(client: Any, name: str, note: str) -> None:
    """Make the registered model ``name`` unless it is there; either way it says what it is."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description=note)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        if not client.get_registered_model(name).description:
            client.update_registered_model(name, note)
