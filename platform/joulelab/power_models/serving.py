"""A fitted model behind a table: what a model server asks and gets, MLflow's among them.

MLflow loads it by the name of this module (``loader_module``), from JSON, npz and native files:
nothing is unpickled and no code comes with the model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from joulelab.errors import ConfigError
from joulelab.power_models.base import Outside
from joulelab.power_models.columns import ACTIVITIES, Cells, Column, Limits
from joulelab.power_models.operating_model import OperatingModel, Quantity, load_operating_model
from joulelab.power_models.queries import Profile, Queries

TEXT_COLUMNS = ("application", "gpu", "board")
NUMBER_COLUMNS = ("profile_clock_mhz", "profile_time_s", "sm_clock_mhz")
LIMIT_COLUMNS = ("power_limit_w", "reached_mhz", "held_mhz")
OPTIONAL_COLUMNS = (*LIMIT_COLUMNS, *ACTIVITIES)
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
PARAMS: Mapping[str, float | str] = {"level": 0.9, "outside": "widen"}
"""What may be asked besides, and what holds otherwise: the level of intervals, and whether
queries outside the training domain get wider ones or are refused."""


class ServedModel:
    """Answers tables of queries with tables of predictions of fitted models."""

    def __init__(self, model: OperatingModel) -> None:
        self.model = model

    def predict(
        self, model_input: pd.DataFrame, params: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Predict power, time, energy, EDP and ED2P of each row, with intervals.

        Args:
            model_input: One query per row: an application's profile at the default clock, and
                ``sm_clock_mhz``, the clock that is asked about.
            params: Changes to :data:`PARAMS`.

        Returns:
            For each quantity the prediction and the ends of its interval (``_lower``,
            ``_upper``), and in ``outside`` what of the query was not in the training domain, for
            which the intervals were widened; empty if nothing.

        Raises:
            ConfigError: If a column is missing or wrong, or ``outside`` is ``"refuse"`` and a
                query is outside.
        """
        level, outside = checked({**PARAMS, **(params or {})})
        queries = queries_of_frame(model_input)
        findings = self._outside(queries)
        if outside == "refuse" and any(findings):
            row = next(number for number, text in enumerate(findings) if text)
            raise ConfigError(
                f"Queries must be inside the training domain, row {row} is not: {findings[row]} "
                'Ask with outside="widen" for a wider interval.'
            )
        columns: dict[str, Any] = {}
        for name in QUANTITIES:
            interval = self.model.predict_interval(queries, name, level)
            columns[name] = self.model.predict(queries, name)
            columns[f"{name}_lower"] = interval.lower
            columns[f"{name}_upper"] = interval.upper
        return pd.DataFrame({**columns, "outside": findings}, index=model_input.index)

    def _outside(self, queries: Queries) -> list[str]:
        """Say for each query what of it is outside of either model's domain."""
        domains = {id(each.domain): each.domain for each in (self.model.power, self.model.time)}
        findings = [""] * len(queries)
        beyond = [domain.excess(queries) > 0 for domain in domains.values()]
        for row in np.flatnonzero(np.any(beyond, axis=0)):
            one = queries.select(np.array([row]))
            found = [sentence for domain in domains.values() for sentence in domain.findings(one)]
            findings[row] = " ".join(dict.fromkeys(found))
        return findings


def queries_of_frame(frame: pd.DataFrame) -> Queries:
    """Read queries from a table; an activity or limit without a number is unread.

    Raises ConfigError if a column is missing or a value cannot be; names it and the row.
    """
    missing = [name for name in (*TEXT_COLUMNS, *NUMBER_COLUMNS) if name not in frame.columns]
    if missing:
        raise ConfigError(f"Columns {missing} are required, got {sorted(map(str, frame.columns))}.")
    if frame.empty:
        raise ConfigError("At least one query is required, got none.")
    rows: list[dict[Any, Any]] = frame.to_dict(orient="records")
    made: list[Profile] = []
    numbers: dict[tuple[str, ...], int] = {}
    which = []
    for number, row in enumerate(rows):
        key = tuple(str(row.get(name)) for name in frame.columns if name != "sm_clock_mhz")
        if key not in numbers:
            numbers[key] = len(made)
            made.append(_profile_of(row, number))
        which.append(numbers[key])
    return Queries(
        profiles=tuple(made),
        profile=np.array(which, dtype=np.intp),
        sm_clock_mhz=Cells(rows=rows).required_numbers(_any_number("sm_clock_mhz")),
    )


def frame_of_queries(queries: Queries) -> pd.DataFrame:
    """Write queries as the table that :func:`queries_of_frame` reads."""
    rows = []
    for number, clock_mhz in zip(queries.profile, queries.sm_clock_mhz, strict=True):
        profile = queries.profiles[number]
        rows.append(
            {
                "application": profile.application,
                "gpu": profile.gpu,
                "board": profile.board,
                "profile_clock_mhz": float(profile.clock_mhz),
                "profile_time_s": np.nan if profile.time_s is None else float(profile.time_s),
                "sm_clock_mhz": float(clock_mhz),
                **{name: float(getattr(profile, name) or np.nan) for name in LIMIT_COLUMNS},
                **{name: float(profile.activity.get(name, np.nan)) for name in ACTIVITIES},
            }
        )
    return pd.DataFrame(rows)


def checked(params: Mapping[str, Any]) -> tuple[float, Outside]:
    """Return the level and what to do outside the training domain, as in :data:`PARAMS`.

    Raises ConfigError if there is no such parameter or choice.
    """
    unknown = sorted(set(params) - set(PARAMS))
    if unknown:
        raise ConfigError(f"Parameters must be among {sorted(PARAMS)}, got {unknown}.")
    if params["outside"] not in get_args(Outside):
        raise ConfigError(f"outside must be one of {get_args(Outside)}, got {params['outside']!r}.")
    return float(params["level"]), params["outside"]


def _load_pyfunc(path: str) -> ServedModel:
    """Load what MLflow keeps below ``data``: the entry point that it asks of a loader module."""
    return ServedModel(load_operating_model(Path(path)))


def _profile_of(row: Mapping[Any, Any], number: int) -> Profile:
    cells = Cells(rows=[row], first_row=number)
    read = [name for name in OPTIONAL_COLUMNS if not pd.isna(row.get(name))]
    known = {
        name: float(cells.required_numbers(_any_number(name))[0])
        for name in (*read, "profile_clock_mhz", "profile_time_s")
    }
    try:
        return Profile(
            application=str(row["application"]),
            gpu=str(row["gpu"]),
            board=str(row["board"]),
            clock_mhz=known.pop("profile_clock_mhz"),
            time_s=known.pop("profile_time_s"),
            **{name: known.pop(name, None) for name in LIMIT_COLUMNS},
            activity=known,
        )
    except ConfigError as error:
        raise ConfigError(f"Row {number}: {error}") from error


def _any_number(name: str) -> Column:
    return Column(name=name, limits=Limits(-np.inf, np.inf, "numbers are required"))
