"""Of which kind a study is: a results folder holds one of them."""

from joulelab.analysis import knob_grid, search_result
from joulelab.errors import ConfigError
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader

MEASUREMENT = "measurement"
SWEEP = "sweep"
SEARCH = "search"
BASELINE = "baseline"
MATRIX = "matrix"
_TOGETHER = {MEASUREMENT, SWEEP}
"""What one study may hold beside each other: their trials are named alike."""


def study_of(about: str) -> str:
    """Return the kind of a study of knobs, such as ``"study of formats"``."""
    return f"study of {about}"


def check_kind(store: ResultStore, kind: str | None) -> None:
    """Refuse a study of a ``kind`` in the folder of another one; ``None`` fits any.

    Raises ConfigError if the folder holds a study of another kind; TrackingError if it cannot be
    read.
    """
    known = known_kind(store)
    if None in (known, kind) or known == kind or {known, kind} == _TOGETHER:
        return
    raise ConfigError(
        f"A {kind} needs a study of its own, but {store.folder} holds a {known}; give another "
        "name with --study, in Python with study=."
    )


def known_kind(store: ResultStore) -> str | None:
    """Return the kind of the study in a folder; ``None`` if it has none, or does not tell.

    Headers of before name none: what lies beside them, and their settings, do.
    """
    header = store.read_study()
    if header is None or header.kind is not None:
        return None if header is None else header.kind
    return _by_files(store) or _by_settings(header)


def _by_files(store: ResultStore) -> str | None:
    names = (search_result.ASKED, search_result.LOG)
    if any((store.folder / name).exists() for name in names):
        return SEARCH
    for name in (knob_grid.ASKED, knob_grid.LOG):
        if (log := knob_grid.read_knob_log(store, name=name)) is not None:
            return study_of(log.study.about)
    return None


def _by_settings(header: StudyHeader) -> str | None:
    names = {name for name, _ in header.settings}
    if {"only", "again"} <= names:
        return MATRIX
    if "recipe" in names:
        return BASELINE
    return SWEEP if "objective" in names else None
