"""A study told anew from its results folder, whatever kind of study it is."""

from joulelab.analysis import knob_log, search_log
from joulelab.analysis.conclude import conclude_sweep, print_sweep
from joulelab.analysis.conclude_knobs import conclude_knobs, print_knobs
from joulelab.analysis.search_conclude import print_search, write_search
from joulelab.errors import TrackingError
from joulelab.tracking.store import ResultStore


def retell(store: ResultStore, *, max_rows: int = 20) -> None:
    """Write the files of a study again, and print what it found.

    Searches and studies of knobs leave a log when they end, or are interrupted; a sweep needs
    none.

    Args:
        store: The study's results.
        max_rows: Rows of each table that is printed at most.

    Raises:
        TrackingError: If it is of another kind, has not ended, or cannot be read.
    """
    if (store.folder / search_log.LOG).exists():
        _retell_search(store, max_rows)
    elif (store.folder / knob_log.LOG).exists():
        _retell_knobs(store)
    elif (objective := _objective_of(store)) is not None:
        conclude_sweep(store, objective)
        print_sweep(store.folder, objective, max_rows=max_rows)
    else:
        raise TrackingError(
            f"{store.folder} must hold a sweep, or the log of a search ({search_log.LOG}) or of a "
            f"study of knobs ({knob_log.LOG}), but does not: it has not ended (go on with it with "
            "--study), is of another kind, or of a version that wrote none."
        )


def _retell_search(store: ResultStore, max_rows: int) -> None:
    result = search_log.result_of(search_log.read_log(store), store.read())
    known = store.read_answer()
    runs = {each.measurement_id: dict(each.values) for each in known.runs} if known else {}
    write_search(store, result, runs)
    print_search(store.folder, result, max_rows=max_rows)


def _retell_knobs(store: ResultStore) -> None:
    log = knob_log.read_knob_log(store)
    print_knobs(conclude_knobs(store, log.study, log.quality), log.study, store.folder)


def _objective_of(store: ResultStore) -> str | None:
    """Return what a sweep is to have little of; ``None`` for a study that is no sweep."""
    header = store.read_study()
    objective = None if header is None else dict(header.settings).get("objective")
    return objective if isinstance(objective, str) else None
