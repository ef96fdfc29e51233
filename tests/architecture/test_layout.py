"""The shape of the repository, kept by a test rather than by memory."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
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
        "platform/joulelab/tracing/",
        "platform/joulelab/workloads/",
        "platform/joulelab/quality/",
        "platform/joulelab/estimator/",
        "platform/joulelab/power_models/members/dnn.py",
        "platform/joulelab/integrations/",
        "platform/joulelab/sampling/cuda_device.py",
        "platform/joulelab/attribution/torch_",
    ),
    "transformers": (
        "platform/joulelab/integrations/",
        "platform/joulelab/tracing/",
        "platform/joulelab/workloads/",
        "platform/joulelab/quality/",
        "platform/joulelab/estimator/",
        "platform/joulelab/attribution/traced.py",
    ),
    "lightning": ("platform/joulelab/integrations/lightning.py",),
    "torchvision": (
        "platform/joulelab/tracing/",
        "platform/joulelab/workloads/",
        "platform/joulelab/estimator/",
    ),
    "timm": ("platform/joulelab/workloads/", "platform/joulelab/estimator/"),
    "diffusers": ("platform/joulelab/workloads/", "platform/joulelab/estimator/"),
    "torchao": ("platform/joulelab/workloads/quantised_layers.py",),
    "torchmetrics": ("platform/joulelab/quality/",),
    "sacrebleu": ("platform/joulelab/quality/",),
    "rouge_score": ("platform/joulelab/quality/",),
    "ultralytics": ("platform/joulelab/workloads/yolov8_network.py",),  # AGPL-3.0
    "matplotlib": ("platform/joulelab/analysis/", "platform/joulelab/study/results.py"),
    "joulelab_actors": ("actors/",),
}
# joulelab's layers, lowest first: a module imports its own layer or lower ones.
LAYERS = [
    ["errors", "registry", "csv_table"],
    ["core"],
    ["hardware"],
    ["tracing"],
    ["workloads", "objectives"],
    ["quality", "estimator"],
    ["devices"],
    ["sampling"],
    ["power_models"],
    ["searching"],
    [
        "attribution",
        "bench",
        "governor",
        "guard",
        "monitor",
        "provenance",
        "running",
        "serving",
    ],
    ["tracking"],
    ["analysis", "live"],
    ["study", "integrations"],
    ["attributor", "runner", "seeker", "testing"],
    ["cli"],
]


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


@cache
def statements(path):
    return ast.parse(path.read_text()).body


@cache
def nodes(path):
    return [node for statement in statements(path) for node in ast.walk(statement)]


@cache
def imported(path):
    """What a module imports, wherever the import stands."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in MODULES else node.module for name in names]
    return found


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def test_heavy_imports_stay_where_they_belong():
    misplaced = [
        f"{name_of(path)} imports {module}"
        for path in SOURCES
        for module in imported(path)
        if not name_of(path).startswith(ALLOWED.get(module.partition(".")[0], ""))
    ]

    assert misplaced == []


def test_layers_point_down():
    level = {name: i for i, names in enumerate(LAYERS) for name in names}
    upward = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        for target in imported(path)
        if module.startswith("joulelab.")
        and target.startswith("joulelab.")
        and level[target.split(".")[1]] > level[module.split(".")[1]]
    ]

    assert upward == []


def test_modules_import_each_other_without_circles():
    graph = {
        module: set(MODULES).intersection(imported(path)) - {module}
        for module, path in MODULES.items()
    }

    TopologicalSorter(graph).prepare()  # raises CycleError, which names a circle


def test_packages_import_each_other_without_circles():
    graph = {}
    for module, path in MODULES.items():
        package = (module.split(".")[1:] or [""])[0]
        others = {other.split(".")[1] for other in imported(path) if "joulelab." in other}
        if module.startswith("joulelab."):  # the package itself imports what it offers on demand
            graph.setdefault(package, set()).update(others - {package})

    TopologicalSorter(graph).prepare()


def test_actors_need_no_command_line():
    for path in (ROOT / "actors").rglob("*.py"):
        assert not [module for module in imported(path) if module.startswith("joulelab.cli")], path


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


def test_no_module_outgrows_three_hundred_lines():
    assert [name_of(p) for p in SOURCES if len(p.read_text().splitlines()) > 300] == []


MANY_PARAMETERS = {
    *("measure", "sweep", "search", "estimate", "trace_program"),  # keywords are a user's options
    # Called with the arguments of PyTorch's own:
    *("_unfused_attention_backward", "_layers_of_gpu", "_multi_head_attention"),
}


def functions():
    """Every function's place and name, and its definition."""
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name_of(path)}: {node.name}", node


def num_lines(function):
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def num_parameters(function):
    given = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    return len([name for name in given if name not in ("self", "cls")])


def test_functions_are_short():
    assert [name for name, function in functions() if num_lines(function) > 40] == []


def test_functions_have_few_parameters():
    assert [
        name
        for name, function in functions()
        if num_parameters(function) > 8 and function.name not in MANY_PARAMETERS
    ] == []


def avoided_words():
    """Words that the glossary says no name holds."""
    text = (ROOT / "docs/glossary.md").read_text().partition("## Words that no name holds")[2]
    return {word for row in re.findall(r"(?m)^\| ([a-z, ]+) \|", text) for word in row.split(", ")}


def names_in(path):
    yield path.stem
    for node in nodes(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")


def test_names_are_the_fields():
    avoided = avoided_words()
    wrong = {
        f"{name_of(path)}: {name}, see docs/glossary.md"
        for path in SOURCES
        for name in names_in(path)
        if avoided.intersection(words_of(name))
    }

    assert avoided
    assert wrong == set()


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.py")), ids=name_of)
def test_an_experiment_is_a_short_executable_script(path):
    text = path.read_text()

    assert len(text.splitlines()) <= 100
    assert text.startswith("#!/usr/bin/env python\n"), "ray job submit runs it as a program"
    assert os.access(path, os.X_OK)


def import_without(modules, code):
    """Import in a process of its own, in which none of ``modules`` can be."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules.update(dict.fromkeys({modules}))\n{code}"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT / 'actors'}"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


HEAVY = ["mlflow", "torch", "transformers", "pynvml", "scipy", "pandas", "pyarrow", "matplotlib"]


def test_importing_joulelab_needs_numpy_and_nothing_else():
    import_without(
        [*HEAVY, "ray", "rich", "tyro"],
        "import joulelab, joulelab.bench, joulelab.workloads, joulelab.devices.base\n"
        "import joulelab.devices.simulated, joulelab.tracking.store\n"
        "import joulelab.tracking.mlflow_tracker",
    )


def test_an_actor_starts_without_what_measuring_does_not_need():
    """It imported SciPy and the estimator, half a second of each start, for the sake of a type."""
    import_without(
        [*HEAVY, "joulelab.estimator"],
        "import joulelab_actors.gpu_actor, joulelab_actors.laboratory",
    )
