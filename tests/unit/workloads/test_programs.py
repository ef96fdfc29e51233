"""Programs that are found by their names."""

import sys

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.programs import Programs, program_name

SOURCE = """
import neighbour_of_a_program

runs = []

def step(batch: int = neighbour_of_a_program.BATCH):
    runs.append(batch)

class Holder:
    step = staticmethod(step)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_program.py").write_text(SOURCE)
    (tmp_path / "neighbour_of_a_program.py").write_text("BATCH = 8\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("own_program", "neighbour_of_a_program", "joulelab_user_own_program"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "place", "attribute"),
    [
        ("train.py:step", "train.py", "step"),
        ("a b/train.py:Net.step", "a b/train.py", "Net.step"),
        ("package.module:Workload", "package.module", "Workload"),
    ],
)
def test_a_name_is_a_file_or_a_module_with_what_is_called_there(text, place, attribute):
    name = program_name(text)

    assert (name.place, name.attribute) == (place, attribute)


@pytest.mark.parametrize("text", ["gemm", "train.py", "http://host:5000", "a-b:c", "x.py:1"])
def test_other_words_are_no_programs(text):
    assert program_name(text) is None


def test_a_program_of_a_file_is_found_with_the_neighbours_that_it_imports(folder):
    kind = Programs().find("own_program.py:step")

    assert kind.settings_type().batch == 8


def test_a_program_of_a_module_in_the_working_folder_is_found(folder):
    assert Programs().find("own_program:Holder.step").settings_type().batch == 8


def test_a_file_is_executed_once_however_it_is_named(folder):
    programs = Programs()

    first, second = (
        programs.find("own_program.py:step"),
        programs.find(f"{folder}/own_program.py:step"),
    )

    assert first is second


def test_a_file_below_the_working_folder_is_named_from_there_and_another_without_its_folders(
    folder, tmp_path_factory
):
    other = tmp_path_factory.mktemp("secret") / "own.py"

    assert next(program_name(f"{folder}/own_program.py:step").texts()) == "own_program.py:step"
    assert next(program_name(f"{other}:step").texts()) == "own.py:step"


def test_a_misspelt_program_is_answered_with_the_closest_one_of_its_file(folder):
    with pytest.raises(UnknownNameError, match="Did you mean 'step'"):
        Programs().find("own_program.py:stp")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("absent.py:step", "There is no file absent.py"),
        ("absent_module:step", "There is no module absent_module"),
        ("broken.py:step", "1 / 0"),
    ],
)
def test_a_program_that_cannot_be_had_says_why(folder, name, complaint):
    (folder / "broken.py").write_text("1 / 0\n")

    with pytest.raises(ConfigError, match=complaint):
        Programs().find(name)


def test_the_workloads_find_programs_and_know_the_name_of_their_settings(folder):
    kind = WORKLOADS["own_program.py:step"]

    assert WORKLOADS.name_of(kind.settings_type()) == "own_program.py:step"
    assert "own_program.py:step" in WORKLOADS
    assert "own_program.py:step" not in list(WORKLOADS)


def test_files_of_one_name_in_two_folders_are_two_programs(tmp_path, monkeypatch):
    """The second was taken for the first, which was measured again in its place."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for folder, batch in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"def step(batch: int = {batch}):\n    ...")
    programs, files = Programs(), [tmp_path / each / "same_name.py" for each in ("one", "two")]

    names = [programs.known_as(f"{file}:step") for file in files]

    assert names == ["same_name.py:step", "two/same_name.py:step"]
    assert [programs.find(name).settings_type().batch for name in names] == [1, 2]
    assert [programs.known_as(f"{file}:step") for file in files] == names
    assert programs.find(f"{files[1]}:step").settings_type().batch == 2


def test_a_file_of_the_working_folder_is_not_taken_for_one_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for folder, batch in (("there", 1), ("here", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_too.py").write_text(f"def step(batch: int = {batch}):\n    ...")
    programs = Programs()
    monkeypatch.chdir(tmp_path / "here")
    known = programs.known_as(f"{tmp_path / 'there/same_too.py'}:step")

    mine = programs.known_as("same_too.py:step")

    assert (known, mine) == ("same_too.py:step", "here/same_too.py:step")
    assert programs.find(known).settings_type().batch == 1
    assert programs.find(mine).settings_type().batch == 2
