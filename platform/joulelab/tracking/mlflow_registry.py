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
from joulelab.tracking.addresses import discreet, embedded_uri
from joulelab.tracking.mlflow_database import mlflow_uri
from joulelab.tracking.mlflow_store import (
    DESCRIPTION,
    experiment_id,
    log_values,
    open_client,
    reached,
    usable_uri,
)
from joulelab.tracking.store import DEFAULT_RESULTS

EXPERIMENT = "power models"
_ABOUT = (
    "Power models of joulelab: each run is a version of a registered model, with the errors of "
    "every split as metrics, and its training domain and files as artifacts."
)
ARTIFACT = "model"
VERSION_TAG = "joulelab.version"
_REGISTERED = "models:"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the registry says of a version, besides its files."""

    experiment: str  # of its run
    about: str  # what that experiment is
    head: str  # what every version of its kind is, in a sentence
    tags: Mapping[str, str]  # of the run and the version
    metrics: Mapping[str, float]


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

    Raises ConfigError if ``name`` is empty; TrackingError if the store cannot be written.
    """
    tags = {**model.tags, VERSION_TAG: installed_version("joulelab")}
    head = "A model of joulelab, which answers only within its training domain."
    kept = Kept(experiment=EXPERIMENT, about=_ABOUT, head=head, tags=tags, metrics=model.metrics)
    return keep(uri, name, kept, lambda folder: _write(folder, model, tags))


def store_of(asked: str | None) -> str:
    """Return the address of a store, by default that of studies; ConfigError if it is none."""
    return usable_uri(asked or embedded_uri(DEFAULT_RESULTS))


def reference(where: str) -> tuple[str, int | None] | None:
    """Return name and version of ``models:/NAME[/VERSION]``; ``None`` if it is no such address.

    Raises ConfigError if the name is empty, or the version is no number.
    """
    if not where.startswith(_REGISTERED):
        return None
    name, _, version = where.removeprefix(_REGISTERED).lstrip("/").partition("/")
    if not name or (version and not version.isdecimal()):
        raise ConfigError(
            f"A registered model is models:/NAME or models:/NAME/NUMBER, got {where!r}."
        )
    return name, int(version) if version else None


def check_name(name: str) -> None:
    """Refuse a name that a registered model cannot have; ConfigError if it is empty."""
    if not name.strip():
        raise ConfigError("A registered model needs a name, got an empty one.")


def keep(uri: str, name: str, what: Kept, write: Callable[[Path], None]) -> RegisteredModel:
    """Keep what ``write`` puts into a folder, in it under ``model``, as the next version of a name.

    Raises ConfigError if ``name`` is empty; TrackingError if the store cannot be written.
    """
    check_name(name)
    note = _described(what.head, what.tags)
    with reached(uri), tempfile.TemporaryDirectory() as folder:
        client = open_client(uri)
        made = client.create_run(
            experiment_id(client, uri, what.experiment, what.about),
            tags={**what.tags, DESCRIPTION: note},
            run_name=name,
        ).info
        try:
            write(Path(folder))
            client.log_artifacts(made.run_id, folder)
            log_values(client, made.run_id, {}, what.metrics, round(1000 * time.time()))
        except BaseException:
            client.set_terminated(made.run_id, "FAILED")
            raise
        client.set_terminated(made.run_id, "FINISHED")
        _make_name(client, name, note)
        source = f"{made.artifact_uri}/{ARTIFACT}"
        tags = dict(what.tags)
        version = client.create_model_version(name, source, made.run_id, tags, description=note)
    return RegisteredModel(name=name, version=int(version.version), run_id=made.run_id)


@contextmanager
def fetched(
    uri: str, name: str, version: int | None, *, loader: str, files: str
) -> Generator[Path]:
    """Hand out the folder that a registered model was saved to, checked and on this machine.

    Raises TrackingError if there is no such version, the store cannot be read, or what is
    registered wants to be loaded by foreign code; ConfigError if its files hold no model.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept, version = download(uri, name, version, Path(folder))
        check_ours(kept, loader)
        try:
            yield kept / "data" / files
        except ConfigError as error:
            raise ConfigError(
                f"{name!r} version {version} must hold a whole model as this version of joulelab "
                f"keeps it; train and register it anew. {error}"
            ) from error


def download(uri: str, name: str, version: int | None, folder: Path) -> tuple[Path, int]:
    """Copy what is kept of a version, by default the newest, into a folder; return where, and it.

    Raises TrackingError if there is no such version, or the store cannot be read.
    """
    with reached(uri):
        client = open_client(uri)
        if version is None:
            known = [int(v.version) for v in client.search_model_versions(f"name='{name}'")]
            if not known:
                raise TrackingError(f"The store {discreet(uri)} has no registered model {name!r}.")
            version = max(known)
        from mlflow.artifacts import download_artifacts

        source = client.get_model_version_download_uri(name, str(version))
        found = download_artifacts(
            artifact_uri=source, dst_path=str(folder), tracking_uri=mlflow_uri(uri)
        )
    return Path(found), version


def check_ours(folder: Path, loader: str) -> None:
    """Check that a pyfunc in ``folder`` needs nothing but ``loader``, of this package.

    Raises TrackingError if it names another loader, brings code, or is no pyfunc.
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
            folder / ARTIFACT,
            loader_module=model.loader,
            data_path=str(files),
            signature=model.signature,
            input_example=model.example,
            pip_requirements=[f"joulelab=={tags[VERSION_TAG]}"],
            metadata=dict(tags),
        )
    (folder / "training_domain.json").write_text(json.dumps(model.domain, indent=1) + "\n")


def _described(head: str, tags: Mapping[str, str]) -> str:
    """Say what a model is in the words of its tags."""
    lines = (f"- {name.removeprefix('joulelab.').replace('_', ' ')}: {tags[name]}" for name in tags)
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
