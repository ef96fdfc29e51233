"""Set aside what is broken in a results folder, so that the rest can be read without a warning.

Nothing is thrown away: a line goes into a file ``.broken`` beside its own, and a file gets that
ending.
"""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from joulelab.errors import TrackingError
from joulelab.tracking.durable import read_lines, write_whole
from joulelab.tracking.store import ResultStore, delivery_of
from joulelab.tracking.study_lock import StudyLock

ENDING = ".broken"


def repair(folder: Path) -> tuple[str, ...]:
    """Set aside broken lines and files of a study; return what was found, a sentence for each.

    Lines that are no measurement or no delivery, measurements that share an id, traces that cannot
    be read or belong to no measurement, files that a crash left half-written, and headers and
    answers that cannot be read. Raises ConfigError if the study is under way; TrackingError if a
    file cannot be read or written, or is of another version of joulelab.
    """
    store = ResultStore(folder)
    with StudyLock(folder):
        known = store.read(must_warn=False)  # what repairs must not send there
        found = [*_lines(store), *_deliveries(folder)]
        found += _traces(store, {measurement.measurement_id for measurement in known})
        found += _files(store)
    return tuple(found)


def _lines(store: ResultStore) -> Iterator[str]:
    for path in sorted((store.folder / "measurements").glob("*.jsonl")):
        places = [place.rpartition(":") for place in store.broken]
        broken = {int(number) for file, _, number in places if file == str(path)}
        yield from _set_aside(path, broken)
    yield from (f"{place} {why}." for place, why in store.broken.items())


def _deliveries(folder: Path) -> Iterator[str]:
    for path in sorted((folder / "delivered").glob("*.jsonl")):
        broken = {number for number, line in read_lines(path) if delivery_of(line) is None}
        yield from _set_aside(path, broken)
        yield from (f"{path}:{number} notes no delivery." for number in sorted(broken))


def _set_aside(path: Path, broken: Collection[int]) -> Iterator[str]:
    """Move the lines with these numbers, and a last one that was cut short, out of ``path``."""
    data = path.read_bytes()
    lines = dict(read_lines(path))
    whole = b"".join(line + b"\n" for number, line in lines.items() if number not in broken)
    if whole == data:
        return
    moved = [line for number, line in lines.items() if number in broken]
    if not data.endswith(b"\n") and data.splitlines()[-1] not in lines.values():
        moved.append(data.splitlines()[-1])
        yield f"{path}:{len(lines) + 1} was cut short."
    if moved:
        aside = path.with_name(path.name + ENDING)
        before = aside.read_bytes() if aside.exists() else b""
        write_whole(aside, before + b"".join(line + b"\n" for line in moved))
        write_whole(path, whole)


def _traces(store: ResultStore, measurement_ids: Collection[str]) -> Iterator[str]:
    for path in sorted(store.traces.glob("*.parquet")):
        try:
            store.read_trace(path.stem)
        except TrackingError as error:
            yield f"{_moved(path)}: {error}"
        else:
            if path.stem not in measurement_ids:
                yield f"{_moved(path)} belongs to no measurement."


def _files(store: ResultStore) -> Iterator[str]:
    checks: dict[str, Callable[[], object]] = {
        "study.json": store.read_study,
        "answer.json": store.read_answer,
    }
    for path in sorted(store.folder.glob("*.json")):
        try:
            checks.get(path.name, lambda path=path: json.loads(path.read_bytes()))()
        except (ValueError, RecursionError, TrackingError) as error:
            yield f"{_moved(path)}: {error}"
    for path in sorted(store.folder.rglob(".*.tmp")):
        yield f"{_moved(path)}: a crash left it half-written."


def _moved(path: Path) -> Path:
    path.rename(path.with_name(path.name + ENDING))
    return path
