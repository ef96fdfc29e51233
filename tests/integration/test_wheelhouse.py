"""Packages for nodes without a network: real wheels, packed, carried, broken, and installed."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # pip takes its time
SCRIPT = Path(__file__).parents[2] / "cluster/wheelhouse.py"
PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0"
requires-python = ">=3.11"
dependencies = {needs}
[project.optional-dependencies]
more = ["jl-extra"]
"""
# What pip is to find, wherever it runs, and no network: hatchling builds here, as it is installed.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_CONFIG_FILE": os.devnull}


def run(*words, python=sys.executable, **environment):
    return subprocess.run(
        [python, *map(str, words)],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | OFFLINE | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def make_project(folder, name, says="1", needs=()):
    (folder / name).mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name, needs=list(needs)))
    (folder / name / "__init__.py").write_text(f"SAYS = {says!r}\n")
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """``jl_base``, which ``jl_app`` needs, and ``jl_extra``, which its extra needs."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("jl_base", "jl_extra"):
        project = make_project(folder.with_name(name), name)
        done = run("-m", "pip", "wheel", "--no-deps", "-w", folder, project)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """The Python of a node that has nothing."""
    folder = tmp_path_factory.mktemp("node")
    assert run("-m", "venv", folder).returncode == 0
    return folder / "bin/python"


@pytest.fixture
def app(tmp_path):
    return make_project(tmp_path / "app", "jl_app", needs=["jl-base"])


def says(node, name):
    return run("-c", f"import {name}; print({name}.SAYS)", python=node).stdout.strip()


def test_a_project_and_what_it_needs_are_carried_in_small_pieces_and_installed(
    wheels, node, app, tmp_path
):
    out = tmp_path / "out"

    packed = run(SCRIPT, "pack", out, f"{app}[more]", "--wheels", wheels, "--piece-mib", "0.004")
    installed = run(out / "wheelhouse.py", "install", out, python=node)

    assert packed.returncode == 0, packed.stderr
    assert "3 wheels" in packed.stdout
    pieces = sorted(out.glob("*.part"))
    assert len(pieces) > 2
    assert max(piece.stat().st_size for piece in pieces) <= 0.004 * 2**20
    assert installed.returncode == 0, installed.stderr
    assert {says(node, name) for name in ("jl_app", "jl_base", "jl_extra")} == {"1"}
    assert sorted(path.suffix for path in out.iterdir() if path not in pieces) == ["", ".py"]


def test_other_code_of_the_same_version_replaces_what_is_there(wheels, node, tmp_path):
    for says_what in ("old", "new"):
        project = make_project(tmp_path / says_what, "jl_again", says_what)
        out = tmp_path / f"out-{says_what}"
        described = run(SCRIPT, "describe", python=node)
        (tmp_path / "node.json").write_text(described.stdout)
        run(SCRIPT, "pack", out, project, "--wheels", wheels, "--node", tmp_path / "node.json")
        installed = run(out / "wheelhouse.py", "install", out, python=node)
        assert installed.returncode == 0, installed.stderr

    assert says(node, "jl_again") == "new"


def test_pieces_that_are_missing_or_damaged_are_named_and_nothing_is_installed(
    wheels, node, tmp_path
):
    out = tmp_path / "out"
    run(SCRIPT, "pack", out, "jl-base", "--wheels", wheels, "--piece-mib", "0.002")
    (out / "wheels-0001.tar.part").unlink()
    damaged = out / "wheels-0002.tar.part"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")

    installed = run(out / "wheelhouse.py", "install", out, python=node)

    assert installed.returncode == 1
    assert installed.stderr.splitlines() == [
        "wheels-0001.tar.part is missing.",
        "wheels-0002.tar.part is damaged.",
        "Bring these 2 again; the other pieces are whole.",
    ]


def test_the_sums_are_those_of_coreutils(wheels, tmp_path):
    out = tmp_path / "out"
    run(SCRIPT, "pack", out, "jl-base", "--wheels", wheels, "--piece-mib", "0.002")

    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == len(list(out.glob("*.part")))


@pytest.mark.parametrize(
    "harm", [lambda text: text[:-90], lambda text: text.replace("wheels", "/")]
)
def test_a_list_of_pieces_that_is_not_whole_is_not_believed(wheels, tmp_path, harm):
    out = tmp_path / "out"
    run(SCRIPT, "pack", out, "jl-base", "--wheels", wheels, "--piece-mib", "0.002")
    sums = out / "SHA256SUMS"
    sums.write_text(harm(sums.read_text()))

    checked = run(SCRIPT, "check", out)

    assert checked.returncode == 2
    assert "SHA256SUMS must list all pieces, but is damaged; bring it again." in checked.stderr


def test_what_the_node_has_is_left_out(wheels, app, tmp_path):
    described = json.loads(run(SCRIPT, "describe").stdout)
    described["has"] = {"jl-base": "1.0", "jl-extra": "0.9"}
    (tmp_path / "node.json").write_text(json.dumps(described))

    run(SCRIPT, "pack", tmp_path / "out", app, "--wheels", wheels, "--node", tmp_path / "node.json")

    assert packed_names(tmp_path / "out", tmp_path) == [
        "jl_app-1.0-py3-none-any.whl",
        "jl_extra-1.0-py3-none-any.whl",  # another version
        "projects.txt",
        "requirements.txt",
    ]


def packed_names(out, folder):
    whole = folder / "whole.tar"
    whole.write_bytes(b"".join(piece.read_bytes() for piece in sorted(out.glob("*.part"))))
    with tarfile.open(whole) as tar:
        return sorted(tar.getnames())


def test_wheels_are_downloaded_for_the_node_and_sources_are_built(wheels, app, tmp_path):
    """The index is a folder; it has one package as sources alone."""
    index = shutil.copytree(wheels, tmp_path / "index")
    sources = make_project(tmp_path / "jl_sources-1.0", "jl_sources")
    (sources / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: jl-sources\nVersion: 1.0\n")
    with tarfile.open(index / "jl_sources-1.0.tar.gz", "w:gz") as tar:
        tar.add(sources, sources.name)
    other = wheels.glob("jl_extra*")
    shutil.copy(next(other), index / "jl_extra-2.0-cp39-cp39-manylinux_2_5_x86_64.whl")
    words = ["pack", tmp_path / "out", f"{app}[more]", "jl-sources", "--build", "jl-sources"]

    packed = run(SCRIPT, *words, PIP_FIND_LINKS=str(index))

    assert packed.returncode == 0, packed.stderr
    assert packed_names(tmp_path / "out", tmp_path) == [
        "jl_app-1.0-py3-none-any.whl",
        "jl_base-1.0-py3-none-any.whl",
        "jl_extra-1.0-py3-none-any.whl",  # not 2.0, which is for another Python
        "jl_sources-1.0-py3-none-any.whl",
        "projects.txt",
        "requirements.txt",
    ]


def test_another_python_than_the_nodes_downloads_nothing_for_it(tmp_path):
    described = json.loads(run(SCRIPT, "describe").stdout) | {"python": "3.99"}
    (tmp_path / "node.json").write_text(json.dumps(described))

    packed = run(SCRIPT, "pack", tmp_path / "out", "jl-base", "--node", tmp_path / "node.json")

    assert packed.returncode == 2
    assert "must have the node's python, 3.99, but has" in packed.stderr


def test_a_package_that_was_not_packed_is_named(wheels, node, tmp_path):
    project = make_project(tmp_path / "lonely", "jl_lonely", needs=["jl-nowhere"])
    run(SCRIPT, "pack", tmp_path / "out", project, "--wheels", wheels)

    installed = run(SCRIPT, "install", tmp_path / "out", python=node)

    assert installed.returncode == 2
    assert "jl-nowhere" in installed.stderr
    assert "`pip install` ended with 1" in installed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--piece-mib", "0"], "--piece-mib must be 0.001 or more, got 0."),
        (["--node", SCRIPT], "--node must be a file that `describe` printed, which"),
    ],
)
def test_what_cannot_be_packed_by_is_refused_before_anything_is_made(
    wheels, tmp_path, words, message
):
    packed = run(SCRIPT, "pack", tmp_path / "out", "jl-base", "--wheels", wheels, *words)

    assert packed.returncode == 2
    assert message in packed.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_not_packed_into(wheels, tmp_path):
    (tmp_path / "wheels-0000.tar.part").touch()

    packed = run(SCRIPT, "pack", tmp_path, "jl-base", "--wheels", wheels)

    assert packed.returncode == 2
    assert "must be empty or absent" in packed.stderr
