"""A class of a user's own file is a model; its errors are told in the user's own lines."""

import os

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models import trace_model

NETWORK = """
import torch

class Net(torch.nn.Module):
    unit = "window"

    def __init__(self, width=32):
        super().__init__()
        self.layer = torch.nn.Linear(16, width)

    def forward(self, x):
        return self.layer(x)

    @staticmethod
    def example_inputs(batch):
        return torch.rand(batch, 16)

def many(batch):
    return {"x": torch.rand(batch, 100, 16)}

class Without(torch.nn.Module):
    pass

class Branching(Net):
    def forward(self, x):
        return x if x.sum() > 0 else self.layer(x)

class Broken(Net):
    def forward(self, x):
        return self.missing(x)

def always_four(batch):
    return torch.rand(4, 16)
"""

COMPILED = f"""{NETWORK}
class Compiling(Net):
    def __init__(self):
        super().__init__()
        self.layer = torch.compile(self.layer)

class Decorated(Net):
    @torch.compile
    def forward(self, x):
        return self.layer(x)
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(NETWORK)
    return file


def traced(name, **options):
    return trace_model(str(name), **{"batch": 2, "precision": "fp32", **options})


def test_a_class_with_example_inputs_is_traced(path):
    model = traced(f"{path}:Net")

    assert (model.unit, model.inputs) == ("window", {"0": "2x16"})
    assert model.phases[0].program.flop == 2 * 2 * 16 * 32


def test_plain_arguments_of_the_constructor_are_knobs(path):
    assert traced(f"{path}:Net", width=64).phases[0].program.flop == 2 * 2 * 16 * 64


def test_a_function_of_the_file_makes_the_inputs_if_it_is_named(path):
    assert traced(f"{path}:Net:many").inputs == {"x": "2x100x16"}


def test_a_file_that_changes_is_another_model(path):
    before = traced(f"{path}:Net").phases[0].program.flop

    path.write_text(NETWORK.replace("width=32", "width=8"))
    os.utime(path, ns=(1, 1))

    assert traced(f"{path}:Net").phases[0].program.flop == before / 4


def test_an_import_error_shows_the_users_lines_and_no_others(path):
    path.write_text("import torch\n\nvalue = 1 / 0\n")

    with pytest.raises(ConfigError) as caught:
        traced(f"{path}:Net")

    message = str(caught.value)
    assert "value = 1 / 0" in message
    assert "ZeroDivisionError" in message
    assert "importlib" not in message


def test_an_error_in_forward_shows_the_users_lines_and_no_others(path):
    with pytest.raises(ConfigError) as caught:
        traced(f"{path}:Broken")

    message = str(caught.value)
    assert "self.missing(x)" in message
    assert "site-packages" not in message


def test_a_syntax_error_is_told_with_its_line(path):
    path.write_text("class Net(:\n    pass\n")

    with pytest.raises(ConfigError, match=r"(?s)class Net\(:.*SyntaxError"):
        traced(f"{path}:Net")


def test_a_course_that_depends_on_data_is_refused_as_such(path):
    with pytest.raises(ConfigError, match="depend"):
        traced(f"{path}:Branching")


def test_a_misspelt_class_is_answered_with_those_of_the_file(path):
    with pytest.raises(UnknownNameError, match="Did you mean 'Net'"):
        traced(f"{path}:Nett")


def test_a_class_without_inputs_is_told_how_to_give_them(path):
    with pytest.raises(ConfigError, match="example_inputs"):
        traced(f"{path}:Without")


@pytest.mark.parametrize("name", ["absent.py:Net", "absent.py"])
def test_a_file_that_is_not_there_or_names_no_class_is_refused(name):
    with pytest.raises(ConfigError, match=r"no file|needs the class"):
        traced(name)


def test_inputs_that_leave_the_batch_out_are_refused_but_for_one_sample(path):
    """Time and energy were divided by samples that nobody computed: 64 for 4 that were made."""
    with pytest.raises(ConfigError, match=r"same shapes \(4x16\) for 1 and for 64"):
        traced(f"{path}:Net:always_four", batch=64)
    assert traced(f"{path}:Net:always_four", batch=1).inputs == {"0": "4x16"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of what it imports to compile
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["Compiling", "Decorated"])
def test_what_a_network_compiles_itself_is_traced_as_it_is_written(path, name, training):
    """Compiling it failed with "Invalid mt19937 state", or took the tracer for a part of it."""
    path.write_text(COMPILED)

    plain, compiled = (traced(f"{path}:{each}", training=training) for each in ("Net", name))

    assert compiled.phases[0].program.flop == plain.phases[0].program.flop
