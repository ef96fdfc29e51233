"""The shape of the repository, kept by a test rather than by memory."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "platform").rglob("*.py"), *(ROOT / "actors").rglob("*.py")])
JOULELAB = ROOT / "platform/joulelab"

# Each heavy dependency, and the only places that may import it.
ALLOWED = {
    "ray": ("actors/",),
    "mlflow": ("platform/joulelab/tracking/mlflow_",),  # its store, runs, and models
    "pynvml": ("platform/joulelab/devices/",),
    "torch": (
        "platform/joulelab/workloads/",
        "platform/joulelab/quality/",
        "platform/joulelab/estimator/",
        "platform/joulelab/power_models/members/neural/",
        "platform/joulelab/power_models/traces/neural/",
        "actors/joulelab_actors/cuda.py",
    ),
    "transformers": (
        "platform/joulelab/workloads/",
        "platform/joulelab/quality/",
        "platform/joulelab/estimator/",
    ),
    "torchvision": ("platform/joulelab/workloads/", "platform/joulelab/estimator/"),
    "timm": ("platform/joulelab/workloads/", "platform/joulelab/estimator/"),
    "diffusers": ("platform/joulelab/workloads/", "platform/joulelab/estimator/"),
    "torchao": ("platform/joulelab/workloads/quantised_layers.py",),
    "torchmetrics": ("platform/joulelab/quality/",),
    "sacrebleu": ("platform/joulelab/quality/",),
    "rouge_score": ("platform/joulelab/quality/",),
    "torchdiffeq": ("platform/joulelab/power_models/traces/neural/",),
    "ultralytics": ("platform/joulelab/workloads/yolov8_network.py",),  # AGPL-3.0
    "matplotlib": ("platform/joulelab/analysis/",),
    "joulelab_actors": ("actors/",),
}
# joulelab's layers, lowest first: a module imports its own layer or lower ones.
LAYERS = [
    ["errors", "registry", "csv_table"],
    ["core"],
    ["hardware", "statistics"],
    ["sampling", "devices", "workloads", "quality", "estimator", "objectives"],
    ["power_models"],
    ["search"],
    ["guard", "measure", "monitor", "provenance"],
    ["tracking", "analysis", "cli"],
]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_heavy_imports_stay_where_they_belong(path):
    place = path.relative_to(ROOT).as_posix()
    for module in imported(path):
        allowed = ALLOWED.get(module.partition(".")[0])
        assert allowed is None or place.startswith(allowed), f"{place} imports {module}"


@pytest.mark.parametrize("path", sorted(JOULELAB.rglob("*.py")), ids=name_of)
def test_layers_point_down(path):
    level = {name: i for i, names in enumerate(LAYERS) for name in names}
    parts = path.relative_to(JOULELAB).with_suffix("").parts
    if parts[0] == "__init__":
        return
    for module in imported(path):
        target = module.split(".")
        if target[0] == "joulelab" and len(target) > 1:
            assert level[target[1]] <= level[parts[0]], f"{parts[0]} imports {module}"


def test_every_part_of_joulelab_has_a_layer():
    parts = {p.stem for p in JOULELAB.iterdir() if p.suffix == ".py" or p.is_dir()}
    known = {name for names in LAYERS for name in names}

    assert parts - {"__init__", "__pycache__"} == known


@pytest.mark.parametrize("folder", ["platform", "actors", "experiments", "cluster", "notebooks"])
def test_top_level_folders_are_not_packages(folder):
    assert (ROOT / folder).is_dir()
    assert not (ROOT / folder / "__init__.py").exists()


def test_repository_root_does_not_shadow_the_standard_library():
    code = "import platform; print(platform.system())"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("folder", ["platform", "actors", "experiments", "benchmarks"])
def test_nothing_on_sys_path_is_named_like_the_standard_library(folder):
    names = {p.stem for p in (ROOT / folder).iterdir()} - {"__pycache__"}

    assert not names & set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_module_outgrows_three_hundred_lines(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.py")), ids=name_of)
def test_an_experiment_is_a_short_executable_script(path):
    text = path.read_text()

    assert len(text.splitlines()) <= 100
    assert text.startswith("#!/usr/bin/env python\n"), "ray job submit runs it as a program"
    assert os.access(path, os.X_OK)


def test_importing_joulelab_needs_numpy_and_nothing_else():
    heavy = ["ray", "mlflow", "torch", "transformers", "pynvml", "scipy", "pandas", "pyarrow"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({[*heavy, 'matplotlib', 'rich', 'tyro']}))\n"
        "import joulelab, joulelab.measure, joulelab.workloads, joulelab.devices.base\n"
        "import joulelab.devices.simulated, joulelab.tracking.store"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()
