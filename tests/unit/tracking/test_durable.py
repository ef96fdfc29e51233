"""What is promised of a file once a write of it returns."""

import pytest

from joulelab.errors import TrackingError
from joulelab.tracking.durable import LineFile, write_whole


def test_who_reads_the_old_file_reads_it_to_its_end_while_another_takes_its_place(tmp_path):
    path = tmp_path / "answer.json"
    write_whole(path, b"old and whole")

    with path.open("rb") as reader:
        write_whole(path, b"new")

        assert reader.read() == b"old and whole"
    assert path.read_bytes() == b"new"


def test_a_whole_file_is_on_disk_before_it_has_its_name_and_then_the_name_is(tmp_path, synced):
    write_whole(tmp_path / "answer.json", b"0123456789")

    (draft, size_b), folder = synced
    assert (draft.parent, size_b) == (tmp_path, 10)
    assert draft != tmp_path / "answer.json"
    assert folder == (tmp_path, ["answer.json"])


def test_a_file_that_cannot_be_replaced_leaves_no_draft(tmp_path):
    path = tmp_path / "answer.json"
    path.mkdir()

    with pytest.raises(TrackingError, match="Cannot write"):
        write_whole(path, b"new")

    assert list(tmp_path.iterdir()) == [path]


def test_appended_lines_are_on_disk_and_a_new_file_has_its_name_there(tmp_path, synced):
    file = LineFile(tmp_path / "lines.jsonl")

    for _ in range(2):
        file.append(["1", "2"], durable=True)
    file.close()

    folder, *appended = synced
    assert folder == (tmp_path, ["lines.jsonl"])
    assert appended == [(file.path, 4), (file.path, 8)]


def test_lines_that_need_not_be_durable_are_not_waited_for(tmp_path, synced):
    file = LineFile(tmp_path / "lines.jsonl")

    file.append(["1"], durable=False)
    file.close()

    assert [path for path, _ in synced] == [tmp_path]


def test_a_file_that_need_not_be_durable_is_whole_and_not_waited_for(tmp_path, synced):
    write_whole(tmp_path / "now.json", "1", durable=False)

    assert synced == []
    assert (tmp_path / "now.json").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["now.json"]


def test_a_file_of_whole_lines_is_gone_on_with_and_nothing_is_said_to_be_removed(tmp_path, caplog):
    for line in ("1", "2"):
        file = LineFile(tmp_path / "lines.jsonl")
        file.append([line], durable=False)
        file.close()

    assert (tmp_path / "lines.jsonl").read_text() == "1\n2\n"
    assert not caplog.text
