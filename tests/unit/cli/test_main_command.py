import subprocess
import sys

import pytest

from joulelab.cli.main import COMMANDS, main


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])

    assert stop.value.code == 0
    assert f"joulelab {name}" in capsys.readouterr().out


def test_help_imports_none_of_the_commands():
    code = (
        "import sys; from joulelab.cli.main import main; main(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('tyro', 'rich', 'torch', 'joulelab.devices')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()
