import re
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.cli.main import COMMANDS, main
from joulelab.cli.study import STUDIES
from joulelab.provenance import joulelab_version


def test_help_lists_every_command(capsys):
    code = main(["--help"])

    out = capsys.readouterr().out
    assert code == 0
    assert all(name in out for name in COMMANDS)


def test_no_command_is_a_bad_request(capsys):
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out


def test_a_wrong_command_names_the_closest(capsys):
    code = main(["mesure"])

    assert code == 2
    assert "Did you mean 'measure'?" in capsys.readouterr().err


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"joulelab {joulelab_version()}\n"


def test_sweep_asks_whether_to_measure_or_to_predict(capsys):
    assert main(["sweep", "--model", "resnet50"]) == 2

    said = capsys.readouterr().err
    assert "study dvfs" in said
    assert "estimate-sweep" in said


def test_every_script_is_a_study_with_a_line_about_it(capsys):
    scripts = {path.name for path in (Path(__file__).parents[3] / "experiments").glob("*.py")}

    with pytest.raises(SystemExit) as stop:
        main(["study"])

    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert set(STUDIES.values()) == scripts
    assert re.search(r"dvfs +Find the SM clock at which", out)


def test_a_study_that_nobody_knows_is_refused(capsys):
    assert main(["study", "dvsf"]) == 2
    assert "Did you mean 'dvfs'?" in capsys.readouterr().err


def test_an_error_of_a_study_begins_with_the_command_that_was_given():
    """It began with the name of a script, which nobody had named."""
    words = ["-m", "joulelab.cli.main", "study", "dvfs", "--every", "0"]

    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)

    assert done.stderr == "joulelab: every must be at least 1, got 0.\n"


def test_a_study_takes_the_options_of_its_script():
    words = ["-m", "joulelab.cli.main", "study", "dvfs", "--help"]

    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)

    assert "--every" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])

    assert stop.value.code == 0
    assert f"joulelab {name}" in capsys.readouterr().out


def test_what_draws_is_imported_only_by_what_draws():
    """Matplotlib was more than half of the time until `joulelab attribute --help` answered."""
    code = "import sys, joulelab.cli.attribute; sys.exit('matplotlib' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_imports_none_of_the_commands():
    code = (
        "import sys; from joulelab.cli.main import main; main(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('tyro', 'rich', 'torch', 'joulelab.devices')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("name", ["baseline", "dvfs"])
def test_the_help_of_a_study_names_its_command_and_not_a_file(name):
    """It began with the path of a script within the installed package."""
    words = ["-c", "from joulelab.cli.main import main; main()", "study", name, "--help"]

    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, stdin=None
    )

    assert done.stdout.startswith(f"usage: joulelab study {name} [-h]")


def test_a_program_without_the_two_dashes_is_told_of_them(capsys):
    """Its words were unrecognised options."""
    assert main(["run", "python", "train.py"]) == 2
    assert "needs a program after two dashes" in capsys.readouterr().err
