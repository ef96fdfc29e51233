"""A study on the command line goes on with what it began with, or is refused."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.tracking.addresses import discreet
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader, flat_settings
from joulelab.workloads import WORKLOADS

_MORE = frozenset(
    {"mode", "every", "clocks_mhz", "repeats", "sentinel_every", "order_seed", "seed"}
)
"""Settings that only say how much is measured, and in which order: more may be asked for."""

Settings = dict[str, KnobValue]


def check_same_study(asked: Any, scripts: Mapping[str, str]) -> None:
    """Refuse the settings of a study if the folder of its name is of other ones.

    Where it runs, clocks, repeats, seeds and the budget may differ, and a matrix goes on with any
    cells. What lacks a name, or a folder, is new. ``scripts`` names the kind of each. Raises
    ConfigError if the script, the workload or a setting differs; TrackingError if the folder cannot
    be read.
    """
    lab = getattr(asked, "lab", None)
    study = getattr(lab, "study", None)
    if lab is None or study is None:
        return
    store = ResultStore(lab.study_dir(study))
    header = store.read_study()
    if header is None:
        return
    began, this = PurePath((*header.command, "")[0]).name, PurePath(sys.argv[0]).name
    if began != this and {began, this} <= scripts.keys():
        raise _refusal(store, f"kind {scripts[began]!r}", f"kind {scripts[this]!r}")
    _check_workload(asked, store, header)
    of, now = _fixed(header.settings), _fixed(flat_settings(asked))
    if "again" in now:
        return
    if other := [name for name in of.keys() & now if of[name] != now[name]]:
        raise _refusal(store, _words(of, other), _words(now, other))


def _check_workload(asked: Any, store: ResultStore, header: StudyHeader) -> None:
    workload = getattr(asked, "workload", None)
    if workload is None:
        return
    name = WORKLOADS.name_of(workload)
    known = header.workloads or {m.configuration.workload for m in store.read()}
    if known and name not in known:
        raise _refusal(store, ", ".join(sorted(known)), name)


def _fixed(settings: Iterable[tuple[str, KnobValue]]) -> Settings:
    return {
        name: discreet(value) if isinstance(value, str) else value
        for name, value in settings
        if not (name in _MORE or name.startswith("budget."))
        and (name.startswith("lab.procedure.") or not name.startswith("lab."))
    }


def _words(settings: Settings, names: Iterable[str]) -> str:
    return ", ".join(f"{name}={settings[name]}" for name in sorted(names))


def _refusal(store: ResultStore, of: str, now: str) -> ConfigError:
    return ConfigError(
        f"{store.folder} holds a study of {of}, but {now} is asked for; repeat the options that it "
        "began with, or give another name with --study."
    )
