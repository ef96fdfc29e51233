"""The commands of the documentation exist, and take the options that they are shown with."""

import re
import runpy
from functools import cache

import pytest
from doc_pages import PAGES, ROOT, commands, mentions, name_of, write_files
from script_settings import settings_of

from joulelab.cli import main as joulelab
from joulelab.cli.study import STUDIES

OUTSIDE = {
    ".",
    "git",
    "export",
    "nvidia-smi",
    "exit",
    "kubectl",
    "pip",
    "podman",
    "salloc",
    "scancel",
    "srun",
    "cluster/mlflow_server.sh",
    "cluster/ray_node.sh",
}
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
OPTION = re.compile(r"--[a-z][\w.-]*")


def check(words):
    """Read a command line as the program that it names would; nothing is carried out."""
    head, rest = words[0], words[1:]
    if "wheelhouse.py" in f"{head} {rest[0] if rest else ''}":
        wheelhouse()["_parser"]().parse_args(
            rest[head.startswith("python") : rest.index(">") if ">" in rest else None]
        )
    elif head in ("python", "python3") or head.startswith(("experiments/", "cluster/ray.sbatch")):
        check_script(words if head.startswith("experiments/") else rest)
    elif head == "joulelab":
        check_joulelab(rest)
    elif head == "make":
        assert {word for word in rest if "=" not in word} <= TARGETS
    elif words[:3] == ["ray", "job", "submit"]:
        check(words[words.index("--") + 1 :] if "--" in words else words[3:])
    elif head == "cluster/ray_run.sh":
        check(rest)
    elif head == "sbatch":
        script = words.index("cluster/ray.sbatch")
        check_script(words[script + 1 :] or ["experiments/dvfs_sweep.py"])
    else:
        assert head in OUTSIDE, f"nobody knows {head!r}"


@cache
def wheelhouse():
    return runpy.run_path(str(ROOT / "cluster/wheelhouse.py"))


def check_joulelab(words):
    if words[0] == "study":
        check_script([f"experiments/{STUDIES[words[1]]}", *words[2:]])
    elif words[0] == "--version" or "--help" in words:
        assert words[0] == "--version" or words[0] in joulelab.COMMANDS
    else:
        parsed = joulelab._parse(words[0], words[1:])
        assert not str(getattr(parsed, "model", "")).endswith(".csv"), "a table in a model's place"


def check_script(words):
    path = ROOT / words[0]
    assert path.is_file(), f"there is no {words[0]}"
    if path.parent.name == "experiments":
        settings_of(words)


@pytest.mark.parametrize(
    ("page", "words"),
    [(page, words) for page in PAGES for words in commands(page.read_text())],
    ids=lambda part: " ".join(part) if isinstance(part, list) else name_of(part),
)
def test_a_command_on_a_line_of_its_own_can_be_given(page, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(page.read_text(), tmp_path)
    try:
        check(words)
    except SystemExit:
        pytest.fail(f"{' '.join(words)}\n{capsys.readouterr().err}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_named_in_a_sentence_exist(page, capsys):
    for mention in mentions(page.read_text()):
        name, *words = mention.split()
        if name == "joulelab" and words:
            assert "|" in mention or words[0] in {*joulelab.COMMANDS, "NAME", "--version"}, mention
        if name == "make":
            assert {word for word in words if "=" not in word} <= TARGETS, mention
        if name in ("python", "python3") and words and "/" in words[0]:
            assert (ROOT / words[0]).is_file(), mention
        if re.fullmatch(r"(experiments|benchmarks|cluster|docs|notebooks)/[\w./-]*", name):
            assert (ROOT / name).exists(), mention


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_named_in_a_sentence_are_those_of_some_command(page):
    for mention in mentions(page.read_text()):
        program = re.match(r"python (benchmarks/\w+\.py)", mention)
        known = options_of(ROOT / program[1]) if program else known_options()
        assert set(OPTION.findall(mention)) <= known, mention


def options_of(program):
    """Options of a benchmark: the attributes of its settings."""
    named = re.findall(r"^    (\w+):|\"(--[\w-]+)\"", program.read_text(), re.M)
    return {option or f"--{name.replace('_', '-')}" for name, option in named}


@cache
def known_options():
    """Options of all commands and studies, from the reference that is built of their own words."""
    hooks = runpy.run_path(str(ROOT / "docs/site/hooks.py"))
    text = "".join(hooks[f"_{page}"]() for page in ("commands", "studies", "workloads"))
    settings = {f"--{name.replace('_', '-')}" for name in re.findall(r"^\| `(\w+)`", text, re.M)}
    others = {
        "--app-name",
        "--gpus",
        "--help",
        "--local-dir",
        "--no-index",
        "--no-requeue",
        "--nodes",
        "--runtime-env",
        "--signal",
        "--version",
    }
    packing = OPTION.findall((ROOT / "cluster/wheelhouse.py").read_text())
    return {*OPTION.findall(text), *settings, *others, *packing, "--working-dir"}
