"""Programs that travel to other processes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from joulelab.errors import ConfigError
from joulelab.workloads.parcel import pack, unpack
from joulelab.workloads.program import workload_type
from joulelab.workloads.programs import Programs

FILES = {
    "travelling.py": "import beside_it\nimport json\nBATCH = 8\n"
    "def step(batch: int = BATCH):\n    from packed_deep import inner\n    return inner.VALUE\n",
    "beside_it.py": "",
    "packed_deep/__init__.py": "",
    "packed_deep/inner.py": "from . import sibling\nfrom packed_deep.other import X\nVALUE = X\n"
    "def step(): pass\n",
    "packed_deep/sibling.py": "",
    "packed_deep/other.py": "X = 5\n",
    "packed_deep/unused.py": "",
    "stranger.py": "",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"travelling", "beside_it", "packed_deep"}:
            del sys.modules[name]


def packed(name):
    programs = Programs()
    programs.find(name)
    [parcel] = pack(programs, [name])
    return parcel


def test_a_program_travels_with_what_it_imports_from_its_folder_and_nothing_else():
    parcel = packed("travelling.py:step")

    assert set(dict(parcel.files)) == set(FILES) - {"stranger.py", "packed_deep/unused.py"}
    assert parcel.main == "travelling.py"


def test_a_module_of_the_working_folder_travels_from_the_folder_that_it_is_imported_from():
    parcel = packed("packed_deep.inner:step")

    assert parcel.main == "packed_deep/inner.py"
    assert "packed_deep/__init__.py" in dict(parcel.files)


def test_another_process_runs_what_was_sent_and_not_what_lies_there(folder, tmp_path_factory):
    parcel = packed("travelling.py:step")
    other = tmp_path_factory.mktemp("other")
    (other / "travelling.py").write_text("def step(batch: int = 1): raise SystemExit\n")
    sent = {"files": [(name, content.decode()) for name, content in parcel.files]}
    code = (
        "import json, sys; from joulelab.workloads import WORKLOADS\n"
        "from joulelab.workloads.parcel import Parcel, unpack\n"
        "sent = json.loads(sys.stdin.read())\n"
        "files = tuple((name, text.encode()) for name, text in sent['files'])\n"
        f"parcel = Parcel(name={parcel.name!r}, main={parcel.main!r}, files=files,"
        f" digest={parcel.digest!r})\n"
        "unpack(WORKLOADS.programs, [parcel])\n"
        "kind = WORKLOADS['travelling.py:step']\n"
        "print(kind.settings_type().batch, kind.target[0]())\n"
    )
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=other,
        env=os.environ
        | {"PYTHONPATH": str(root / "platform"), "XDG_CACHE_HOME": str(other / "cache")},
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["8", "5"], done.stderr


def test_an_object_of_this_process_cannot_travel():
    programs = Programs()
    programs.hold("here.step", workload_type(lambda: None))

    with pytest.raises(ConfigError, match=r"here\.step is an object of this process"):
        pack(programs, ["here.step"])


def test_what_is_no_program_needs_no_parcel():
    assert pack(Programs(), ["gemm"]) == ()


def test_an_installed_module_does_not_travel_and_must_be_the_same_elsewhere():
    parcel = packed("getpass:getuser")

    unpack(Programs(), [parcel])
    with pytest.raises(ConfigError, match="install the same on every node"):
        unpack(Programs(), [replace(parcel, digest="0" * 32)])

    assert parcel.files == ()
