"""Pages that are made when the site is built, so that no copy is kept by hand."""

import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import fields
from inspect import isfunction
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

_COLUMNS = 84
_INCLUDED = (
    (r"cluster/README\.md", "tutorials/cluster.md"),
    (r"experiments/results/(\w+)/README\.md", r"results/\1.md"),
)
_NAMES = "<!-- public names -->"
_EQUATION = re.compile(r"^```math\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<![\w$])\$([^$`\n]+(?:\n[^$`\n]+)?)\$(?![\w$])")


def on_startup(**_: Any) -> None:
    """Take the packages of this checkout, installed or not."""
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "platform"), str(root / "actors")]


def on_config(config: Any) -> Any:
    """Put guides that the navigation does not name behind those that it does."""
    [guides] = [part["How-to guides"] for part in config.nav if "How-to guides" in part]
    named = {path for guide in guides for path in guide.values()}
    for path in sorted((Path(config.docs_dir) / "how-to").glob("*.md")):
        if (short := f"how-to/{path.name}") not in named:
            guides.append({path.read_text().partition("\n")[0].lstrip("# "): short})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the references of commands, studies and workloads."""
    pages: dict[str, Callable[[], str]] = {
        "commands": _commands,
        "studies": _studies,
        "workloads": _workloads,
    }
    for name, write in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in every public name of the package, and equations as MathML, which browsers draw.

    Links to files of the repository that a page includes become links to that page.
    """
    top = "../" * page.file.src_uri.count("/")
    for file, place in _INCLUDED:
        markdown = re.sub(rf"\]\((?:\.\./)+{file}", rf"]({top}{place}", markdown)
    if _NAMES in markdown:
        markdown = markdown.replace(_NAMES, _public_names())
    markdown = _EQUATION.sub(lambda found: convert(found[1], display="block"), markdown)
    return _INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", markdown)


def _public_names() -> str:
    """Return what to show of the package: functions, then what runs, then values."""
    import joulelab

    def rank(name: str) -> tuple[bool, bool]:
        each = getattr(joulelab, name)
        return each.__module__.startswith("joulelab.core"), not isfunction(each)

    return "\n\n".join(f"::: joulelab.{name}" for name in sorted(joulelab.__all__, key=rank))


def _commands() -> str:
    from joulelab.cli.hardware import SUBCOMMANDS as OF_HARDWARE
    from joulelab.cli.main import COMMANDS
    from joulelab.cli.models import SUBCOMMANDS

    parts = ["# Commands", "What each command says of itself with `--help`."]
    for name in COMMANDS:
        parts.append(_section(f"joulelab {name}", [name]))
        parts += [
            _section(f"joulelab {name} {sub}", [name, *sub.split()], 3)
            for sub in {"models": SUBCOMMANDS, "hardware": OF_HARDWARE}.get(name, ())
        ]
    return "\n\n".join(parts)


def _studies() -> str:
    from joulelab.cli.study import STUDIES

    parts = [
        "# Studies",
        "`joulelab study NAME` runs the script of that name from any folder; in a checkout the "
        "scripts are in `experiments/`. Each says with `--help` what it takes.",
    ]
    for name, script in STUDIES.items():
        parts.append(
            _section(f"joulelab study {name}", ["study", name], told=f"`experiments/{script}`")
        )
    return "\n\n".join(parts)


def _workloads() -> str:
    from joulelab.workloads import WORKLOADS

    parts = [
        "# Workloads",
        "Settings of each workload. They are options of `joulelab measure NAME`, `joulelab quality "
        "NAME` and the studies, with dashes for underscores.",
    ]
    for name, workload in WORKLOADS.items():
        kind = workload.settings_type
        parts += [f"## {name}", _first_line(kind), _settings_table(kind)]
    return "\n\n".join(parts)


def _settings_table(kind: type) -> str:
    """Return a row for each setting: its choices or type, its default, and what it is."""
    hints = get_type_hints(kind)
    told = {
        each.arg_name: (each.description or "").replace("\n", " ").replace("``", "`")
        for parent in reversed(kind.__mro__)
        for each in docstring_parser.parse(parent.__doc__ or "").params
    }
    rows = [
        f"| `{field.name}` | {_choices(hints[field.name])} | `{field.default}` "
        f"| {told[field.name]} |"
        for field in fields(kind)
    ]
    head = ["| setting | values | default | |", "|---|---|---|---|"]
    return "\n".join(head + rows) if rows else "It has no settings."


def _choices(hint: Any) -> str:
    if get_origin(hint) in (UnionType, Union):
        return ", ".join(map(_choices, get_args(hint)))
    values = get_args(hint) if get_origin(hint) is Literal else [getattr(hint, "__name__", hint)]
    return ", ".join(f"`{value}`" for value in values)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _section(title: str, words: Sequence[str], level: int = 2, told: str = "") -> str:
    return f"{'#' * level} {title}\n\n{told}\n\n```text\n{help_of(words)}\n```"


def help_of(words: Sequence[str]) -> str:
    """Return what the command that ``words`` name says of itself."""
    from joulelab.cli.main import main

    said = io.StringIO()
    with _as_it_was(), redirect_stdout(said), suppress(SystemExit):
        os.environ["COLUMNS"] = str(_COLUMNS)
        main([*words, "--help"])
    if not (text := said.getvalue().strip()):
        raise RuntimeError(f"`joulelab {' '.join(words)} --help` must say something.")
    if words[0] == "study":
        text = re.sub(r"^usage: \S+", f"usage: joulelab {' '.join(words)}", text)
    text = re.sub(r"::\n+", ":\n\n", re.sub(r"-- {3,}", "-- ", text))
    return "\n".join(map(_wrapped, text.splitlines()))


def _wrapped(line: str) -> str:
    """Break lines of prose; examples and tables are indented, and stay as they are."""
    if line.startswith(" "):
        return line.rstrip()
    return textwrap.fill(line, _COLUMNS, break_on_hyphens=False)


@contextmanager
def _as_it_was() -> Generator[None]:
    """Undo what commands and scripts set for their process."""
    before = sys.argv, sys.excepthook, signal.getsignal(signal.SIGINT), os.environ.get("COLUMNS")
    try:
        yield
    finally:
        sys.argv, sys.excepthook = before[:2]
        signal.signal(signal.SIGINT, before[2])
        os.environ.pop("COLUMNS", None)
        if before[3] is not None:
            os.environ["COLUMNS"] = before[3]
