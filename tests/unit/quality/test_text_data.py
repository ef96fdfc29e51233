import json

import pytest

from joulelab.errors import ConfigError
from joulelab.quality.text_data import TextData, read_text_data


def test_a_folder_holds_texts_and_prompts(tmp_path):
    (tmp_path / "a.txt").write_text("A running text.")
    rows = [
        {"prompt": "one", "reference": "1"},
        {"prompt": "two", "references": ["2", "II"]},
        {"text": "Another."},
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "notes.md").write_text("left out")

    data = read_text_data(str(tmp_path))

    assert data.texts == ("A running text.", "Another.")
    assert data.prompts == ("one", "two")
    assert data.references == (("1",), ("2", "II"))
    assert data.name == tmp_path.name


def test_the_set_that_comes_with_the_package_has_everything():
    data = read_text_data(None)

    assert data.texts
    assert len(data.references) == len(data.prompts) > 1
    assert all(data.references)


def test_the_digest_follows_the_content_and_not_the_name():
    data = TextData(name="a", texts=("x",))

    assert data.digest == TextData(name="b", texts=("x",)).digest
    assert data.digest != TextData(name="a", texts=("y",)).digest
    assert data.digest != TextData(name="a", prompts=("x",)).digest


@pytest.mark.parametrize(
    ("line", "said"), [("{", "a.jsonl:1 is not JSON"), ("{}", "must be an object"), ("3", "object")]
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, said):
    (tmp_path / "a.jsonl").write_text(line)

    with pytest.raises(ConfigError, match=said):
        read_text_data(str(tmp_path))


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"holds \.txt or \.jsonl files"):
        read_text_data(str(tmp_path))


def test_a_data_set_of_the_hub_is_one_running_text(monkeypatch):
    asked = {}

    class Datasets:
        @staticmethod
        def load_dataset(name, configuration, *, split):
            asked.update(name=name, configuration=configuration, split=split)
            return [{"text": "One."}, {"text": "Two."}]

    monkeypatch.setitem(__import__("sys").modules, "datasets", Datasets)

    data = read_text_data("owner/wiki:raw@validation")

    assert asked == {"name": "owner/wiki", "configuration": "raw", "split": "validation"}
    assert data.texts == ("One.\n\nTwo.",)


def test_without_the_hub_library_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)

    with pytest.raises(ConfigError, match="pip install datasets"):
        read_text_data("owner/wiki")


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"references": "4 or IV"}, ("4 or IV",)),
        ({"reference": ["4", "IV"]}, ("4", "IV")),
        ({"reference": 4}, ("4",)),
    ],
)
def test_a_reference_is_a_text_or_a_list_of_them_by_either_name(tmp_path, row, references):
    """One text under the name of several was taken for as many references as it has letters, and a
    list under the name of one for its Python code: BLEU and ROUGE were scored against those."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": "2 + 2 =", **row}))

    assert read_text_data(str(tmp_path)).references == (references,)


def test_a_line_ends_where_the_file_ends_it_and_not_within_a_text(tmp_path):
    """A line separator of Unicode in a text, which JSON need not escape, was said to be no JSON."""
    text = "One.\u2028Two.\x85Three."
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"text": text}, ensure_ascii=False) + "\r\n", encoding="utf-8-sig", newline=""
    )

    assert read_text_data(str(tmp_path)).texts == (text,)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_file_that_is_not_in_utf8_is_named(tmp_path, name):
    """It ended in a UnicodeDecodeError."""
    (tmp_path / name).write_bytes('{"text": "caf\xe9"}'.encode("latin-1"))

    with pytest.raises(ConfigError, match=f"{name} must be text in UTF-8"):
        read_text_data(str(tmp_path))
