"""Power models in MLflow: registered with all that is needed to trust them, read back safely.

A registered model is a pyfunc of JSON, npz and native files with a loader module of this package;
MLflow can serve it. :func:`load_registered` reads those files alone: it neither unpickles anything
nor imports what a store names, so that a store may belong to somebody else.
"""

import json
import re
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError, TrackingError
from joulelab.power_models.artifacts import load_operating_model
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Queries
from joulelab.power_models.scores import ErrorScores, IntervalScores, RegretScores
from joulelab.power_models.serving import (
    NUMBER_COLUMNS,
    OPTIONAL_COLUMNS,
    PARAMS,
    QUANTITIES,
    TEXT_COLUMNS,
    ServedModel,
    frame_of_queries,
)
from joulelab.power_models.validation import Validated
from joulelab.tracking.mlflow_store import experiment_id, open_client, reached

EXPERIMENT = "power models"
_LOADER = "joulelab.power_models.serving"
_ARTIFACT = "model"
_FILES = "operating_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A version of a registered model.

    Attributes:
        name: Name in the registry.
        version: Its version, from 1.
        run_id: Run with its metrics, tags and files.
    """

    name: str
    version: int
    run_id: str

    @property
    def uri(self) -> str:
        """Address for MLflow's own tools."""
        return f"models:/{self.name}/{self.version}"


def register_model(
    uri: str,
    name: str,
    model: OperatingModel,
    example: Queries,
    *,
    level: float = 0.9,
    validated: Sequence[Validated] = (),
    note: str = "",
) -> RegisteredModel:
    """Write a fitted model to an MLflow store as the next version of ``name``.

    The run holds the model with signature and input example, the training domain
    (``training_domain.json``), the metrics of each split, and as tags the members, the data's hash
    and the GPUs. It is asked about ``example`` before it is written.

    Args:
        uri: Tracking URI, absolute if it is SQLite.
        name: Name in the registry.
        model: Fitted models of power and time, with intervals.
        example: A few queries, kept as the input example.
        level: Of the intervals that it answers with unless asked for another.
        validated: Scores from :func:`joulelab.power_models.validation.validate`.
        note: Shown on top of the run and the version.

    Raises:
        ConfigError: If the model is not fitted or has no intervals of ``level``, or ``name`` is
            empty.
        TrackingError: If the store cannot be written.
    """
    if not name.strip():
        raise ConfigError("A registered model needs a name, got an empty one.")
    frame = frame_of_queries(example)
    ServedModel(model).predict(frame, {"level": level})
    tags = _tags(model)
    with reached(uri), tempfile.TemporaryDirectory() as folder:
        client = open_client(uri)
        made = client.create_run(
            experiment_id(client, uri, EXPERIMENT),
            tags={**tags, "mlflow.note.content": note},
            run_name=name,
        ).info
        try:
            _write_model(Path(folder), model, frame, level, tags)
            client.log_artifacts(made.run_id, folder)
            _log_metrics(client, made.run_id, split_metrics(validated))
        except BaseException:
            client.set_terminated(made.run_id, "FAILED")
            raise
        client.set_terminated(made.run_id, "FINISHED")
        _make_name(client, name)
        source = f"{made.artifact_uri}/{_ARTIFACT}"
        version = client.create_model_version(name, source, made.run_id, tags, description=note)
    return RegisteredModel(name=name, version=int(version.version), run_id=made.run_id)


def load_registered(uri: str, name: str, version: int | None = None) -> OperatingModel:
    """Read a registered model without running anything that the store holds.

    Args:
        uri: Tracking URI.
        name: Name in the registry.
        version: Its version; ``None`` takes the newest.

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
                raise TrackingError(f"The store {uri} has no registered model {name!r}.")
            version = max(known)
        from mlflow.artifacts import download_artifacts

        source = client.get_model_version_download_uri(name, str(version))
        kept = Path(download_artifacts(artifact_uri=source, dst_path=folder, tracking_uri=uri))
        check_ours(kept)
        try:
            return load_operating_model(kept / "data" / _FILES)
        except ConfigError as error:
            raise ConfigError(
                f"{name!r} version {version} must hold a whole model as this version of joulelab "
                f"keeps it; train and register it anew. {error}"
            ) from error


def check_ours(folder: Path) -> None:
    """Check that a pyfunc in ``folder`` needs none but this package's loader.

    Raises:
        TrackingError: If it names another loader, brings code, or is no pyfunc.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        flavors = yaml.safe_load((folder / "MLmodel").read_text())["flavors"]
        told: Mapping[str, Any] = flavors["python_function"]
        loader, code = told["loader_module"], told.get("code")
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise TrackingError(f"{folder} must hold a pyfunc's MLmodel file: {error}.") from error
    if loader != _LOADER or code or set(flavors) != {"python_function"}:
        raise TrackingError(
            f"A power model is loaded by {_LOADER} and brings no code, got loader {loader!r}, "
            f"code {code!r} and flavors {sorted(flavors)}; it was not loaded."
        )


def split_metrics(validated: Sequence[Validated]) -> dict[str, float]:
    """Return every score by name: ``application.cold.power_w.mean``, ``....power_w.coverage``."""
    found: dict[str, float] = {}
    for each in validated:
        anchored = "cold" if not each.anchors else f"anchors{len(each.anchors)}"
        prefix = f"{each.kind}.{anchored}"
        scores: list[tuple[str, ErrorScores | IntervalScores | RegretScores]] = []
        scores += [*each.errors.items(), *each.intervals.items()]
        scores += [(f"regret.{goal}", score) for goal, score in each.regrets.items()]
        for who, goals in each.baselines.items():
            label = re.sub(r"\W+", "_", who)
            scores += [(f"baseline.{label}.regret.{goal}", score) for goal, score in goals.items()]
        for what, score in scores:
            numbers = {k: v for k, v in asdict(score).items() if isinstance(v, float | int)}
            found.update({f"{prefix}.{what}.{k}": float(v) for k, v in numbers.items()})
    return found


def _tags(model: OperatingModel) -> dict[str, str]:
    return {
        "joulelab.power_member": model.power.name,
        "joulelab.time_member": model.time.name,
        "joulelab.data_hash": model.power.data_hash,
        "joulelab.gpus": ", ".join(model.power.domain.gpus),
        "joulelab.version": installed_version("joulelab"),
    }


def _write_model(
    folder: Path, model: OperatingModel, frame: Any, level: float, metadata: Mapping[str, str]
) -> None:
    with warnings.catch_warnings():
        # MLflow warns about the type hints of its own classes.
        warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType")
        import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as draft:
        files = Path(draft) / _FILES
        model.save(files)
        mlflow.pyfunc.save_model(
            folder / _ARTIFACT,
            loader_module=_LOADER,
            data_path=str(files),
            signature=_signature({**PARAMS, "level": level}),
            input_example=frame,
            pip_requirements=[f"joulelab=={metadata['joulelab.version']}"],
            metadata=dict(metadata),
        )
    domains = {"power_w": asdict(model.power.domain), "time_s": asdict(model.time.domain)}
    (folder / "training_domain.json").write_text(json.dumps(domains, indent=1) + "\n")


def _signature(params: Mapping[str, float | str]) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

    number, text = DataType.double, DataType.string
    inputs: list[ColSpec | TensorSpec] = [ColSpec(text, name) for name in TEXT_COLUMNS]
    inputs += [ColSpec(number, name) for name in NUMBER_COLUMNS]
    inputs += [ColSpec(number, name, required=False) for name in OPTIONAL_COLUMNS]
    ends = [(name, f"{name}_lower", f"{name}_upper") for name in QUANTITIES]
    outputs: list[ColSpec | TensorSpec] = [
        ColSpec(number, name) for names in ends for name in names
    ]
    told = [
        ParamSpec(name, text if isinstance(value, str) else number, value)
        for name, value in params.items()
    ]
    return ModelSignature(
        inputs=Schema(inputs),
        outputs=Schema([*outputs, ColSpec(text, "outside")]),
        params=ParamSchema(told),
    )


def _log_metrics(client: Any, run_id: str, metrics: Mapping[str, float]) -> None:
    from mlflow.entities import Metric

    at_ms = round(1000 * time.time())
    client.log_batch(run_id, metrics=[Metric(k, v, at_ms, 0) for k, v in metrics.items()])


def _make_name(client: Any, name: str) -> None:
    """Make the registered model ``name`` unless it is there."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
