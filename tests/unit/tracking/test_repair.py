import json

import pytest
from synthetic_results import header, record

from joulelab.cli.main import main
from joulelab.core.codec import to_json
from joulelab.errors import TrackingError
from joulelab.tracking.repair import repair
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study_lock import StudyLock


@pytest.fixture
def store(tmp_path):
    made = ResultStore(tmp_path / "study")
    made.write_study(header())
    made.append(*(record(minute=minute, measurement_id=f"m{minute}") for minute in range(4)))
    made.mark_delivered(["m0"], target="memory:")
    return made


def lines(store):
    return store.folder / "measurements" / "driver.jsonl"


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_whole_store_is_left_as_it_is(store):
    before = contents(store.folder)

    assert repair(store.folder) == ()
    assert contents(store.folder) == before


def test_broken_lines_are_moved_beside_and_the_others_stay_as_they_were(store):
    whole = lines(store).read_bytes().splitlines(keepends=True)
    deep = b"[" * 100_000 + b"\n"
    lines(store).write_bytes(
        whole[0] + b"\xff\x00\x1b junk\n" + whole[1] + deep + b"".join(whole[2:])
    )

    found = repair(store.folder)

    assert lines(store).read_bytes() == b"".join(whole)
    aside = lines(store).with_name("driver.jsonl.broken")
    assert aside.read_bytes() == b"\xff\x00\x1b junk\n" + deep
    assert [sentence.partition(" ")[0].rpartition("/")[2] for sentence in found] == [
        "driver.jsonl:2",
        "driver.jsonl:4",
    ]
    assert len(ResultStore(store.folder).read()) == 4


def test_what_is_set_aside_later_joins_what_was_set_aside_before(store):
    for junk in (b"one\n", b"two\n"):
        with lines(store).open("ab") as file:
            file.write(junk)
        repair(store.folder)

    assert lines(store).with_name("driver.jsonl.broken").read_bytes() == b"one\ntwo\n"


def test_a_last_line_that_was_cut_short_is_moved(store):
    whole = lines(store).read_bytes()
    lines(store).write_bytes(whole + b'{"schema_version": 1, "stu')

    found = repair(store.folder)

    assert found == (f"{lines(store)}:5 was cut short.",)
    assert lines(store).read_bytes() == whole


def test_both_measurements_of_one_id_are_moved_with_their_trace(store):
    store.append(record(energy_factor=1.1, measurement_id="m2"))

    found = repair(store.folder)

    assert sum("has the measurement_id of another one" in sentence for sentence in found) == 2
    assert [m.measurement_id for m in ResultStore(store.folder).read()] == ["m0", "m1", "m3"]
    assert (store.folder / "traces" / "m2.parquet.broken").exists()


def test_torn_traces_and_those_of_no_measurement_are_moved(store):
    trace = store.trace_path("m1")
    trace.write_bytes(trace.read_bytes()[:50])
    (store.folder / "traces" / "unknown.parquet").write_bytes(store.trace_path("m0").read_bytes())

    found = repair(store.folder)

    assert [path.name for path in sorted((store.folder / "traces").glob("*.broken"))] == [
        "m1.parquet.broken",
        "unknown.parquet.broken",
    ]
    assert "is no power trace" in found[0]
    assert "belongs to no measurement" in found[1]


@pytest.mark.parametrize("name", ["study.json", "answer.json", "search.json", ".x.7.tmp"])
def test_a_torn_file_is_moved(store, name):
    (store.folder / name).write_text('{"half": ')

    (found,) = repair(store.folder)

    assert found.startswith(f"{store.folder / name}: ")
    assert (store.folder / f"{name}.broken").read_text() == '{"half": '
    assert not (store.folder / name).exists()


def test_a_broken_note_of_a_delivery_costs_none_of_the_others(store):
    ledger = store.folder / "delivered" / "driver.jsonl"
    with ledger.open("ab") as file:
        file.write(b"junk\n")
    store.mark_delivered(["m1"], target="memory:")

    assert [m.measurement_id for m in store.undelivered(target="memory:")] == ["m2", "m3"]
    assert repair(store.folder) == (f"{ledger}:2 notes no delivery.",)
    assert b"junk" not in ledger.read_bytes()


def test_a_whole_line_of_another_version_is_not_taken_for_a_broken_one(store):
    data = {**json.loads(to_json(record().measurement)), "schema_version": 2}
    with lines(store).open("a") as file:
        file.write(f"{json.dumps(data)}\n")

    with pytest.raises(TrackingError, match=r"driver.jsonl:5: schema_version must be 1, got 2"):
        repair(store.folder)


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" + 400 * "0"])
def test_a_number_that_is_none_makes_a_line_broken(store, number):
    text = lines(store).read_text().splitlines()
    lines(store).write_text(
        text[0].replace('"energy_j":', f'"energy_j":{number},"energy_j_was":', 1) + "\n"
    )

    assert store.read() == []
    assert len(store.broken) == 1


def test_the_command_tells_what_it_set_aside_and_escapes_what_files_hold(store, capsys):
    with lines(store).open("ab") as file:
        file.write(b'{"schema_version": 1, "\x1b]2;title\x07": 1}\n')

    code = main(["repair", str(store.folder.parent)])

    said = capsys.readouterr().out
    assert code == 0
    assert "1 set aside in files that end in .broken" in said
    assert "\x1b" not in said


def test_the_command_does_not_send_to_itself(store, caplog):
    """It logged, for each study, that lines be set aside with `joulelab repair`."""
    with lines(store).open("ab") as file:
        file.write(b'{"schema_version": 1}\n')

    found = repair(store.folder)

    assert len(found) == 1
    assert not caplog.records


def test_a_study_under_way_is_not_repaired(store, monkeypatch):
    monkeypatch.setattr("joulelab.tracking.study_lock.Holder.is_same", lambda holder, other: False)

    with StudyLock(store.folder):
        code = main(["repair", str(store.folder)])

    assert code == 2
