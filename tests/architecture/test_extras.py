"""What the package needs, what its extras bring, and what it says where one is missing."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from joulelab.errors import _EXTRAS, missing_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN_FOLDERS = ("platform", "actors")
OWN = {"joulelab", "joulelab_actors"}
GUESTS = {"lightning", "pytest"}  # who takes the callback, or tests a plug-in, has them
WITHOUT_EXTRAS = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(sum(_EXTRAS.values(), ()))}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


distributions = cache(packages_distributions)


@cache
def brought_by(extra):
    """Names of the distributions that an extra installs, those of extras within it included."""
    found = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, within = re.match(r"([\w.-]+)(?:\[([^]]+)])?", requirement).groups()
        found.add(name.lower().replace("_", "-"))
        if name == "joulelab":
            found = found.union(*map(brought_by, within.split(",")))
    return found


def imported(folder):
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module


def without_extras(code, *arguments, **environment):
    paths = os.pathsep.join(str(ROOT / part) for part in OWN_FOLDERS)
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def command(*words, **environment):
    code = "from joulelab.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return without_extras(code, *words, **environment)


def test_every_module_that_is_imported_is_in_the_core_or_in_an_extra():
    core = {re.match(r"[\w-]+", name)[0].replace("-", "_") for name in PROJECT["dependencies"]}
    known = (
        core | {"pynvml"} | OWN | GUESTS | set(sum(_EXTRAS.values(), ())) | sys.stdlib_module_names
    )

    roots = {name.partition(".")[0] for part in OWN_FOLDERS for name in imported(ROOT / part)}

    assert roots - known - {"__main__"} == set()


@pytest.mark.parametrize(
    ("module", "extra"), [(module, extra) for extra in _EXTRAS for module in _EXTRAS[extra]]
)
def test_an_extra_brings_the_modules_it_is_named_for(module, extra):
    homes = distributions().get(module, [module])  # ultralytics is not installed here

    assert {home.lower().replace("_", "-") for home in homes} & brought_by(extra)


def test_a_module_of_nobodys_extra_is_not_explained():
    assert missing_extra(ModuleNotFoundError("No module named 'mine'", name="mine")) is None


def test_the_core_measures(tmp_path):
    where = ["--store", tmp_path / "s", "--guard-socket", tmp_path / "g"]

    done = command("measure", "idle", "--device", "simulated", "--gpu", "h200_sxm", *where)

    assert done.returncode == 0, done.stderr
    assert "idle on simulated NVIDIA H200" in done.stdout


def test_the_core_runs_programs(tmp_path):
    where = ["--device", "simulated", "--gpu", "h200_sxm", "--store", tmp_path / "s"]

    done = command("run", *where, "--", sys.executable, "-c", "print('ran')")

    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "exit code 0 after" in done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("estimate", "--model", "resnet50", "--device", "h200"), "workloads"),
        (("study", "dvfs"), "cluster"),
        (("export-metrics",), "metrics"),
        (("models", "train", "runs.csv", "--out", "m"), "plots"),
    ],
)
def test_a_command_without_its_extra_says_which_it_needs(words, extra, tmp_path):
    done = command(*words, XDG_CACHE_HOME=str(tmp_path))  # a kept trace needs no PyTorch

    said = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2
    assert f"pip install 'joulelab[{extra}]'" in said
    assert "Traceback" not in done.stderr


def test_a_script_without_its_extra_says_which_it_needs():
    script = ROOT / "experiments/dvfs_sweep.py"
    code = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"

    done = without_extras(code, script)

    assert done.returncode == 2
    assert re.fullmatch(r"dvfs_sweep: This needs ray, .*\n", done.stderr)
