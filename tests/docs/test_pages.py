"""What the documentation must hold, and the words it must not use."""

import ast
import re
from functools import cache
from typing import get_args

import pytest
from doc_pages import PAGES, ROOT, blocks, name_of

import joulelab
from joulelab.core.measurement import InvalidReason
from joulelab.hardware import GPUS

DOCS = ROOT / "docs"
# Decisions are kept as they were taken.
LIVING = [page for page in PAGES if "adr" not in page.parts]
OURS = re.compile(r"told apart|told from|tells? apart|held down|hold(s|ing)? down|\btold\b", re.I)
FROM_OUTSIDE = {
    "No space left on device",
    "401",
    "/bin/sh: 1: experiments/dvfs_sweep.py: not found",
}


def test_the_readme_is_read_in_minutes_and_begins_with_the_two_commands():
    text = (ROOT / "README.md").read_text()

    assert len(text.split()) <= 900
    first = blocks("\n".join(text.splitlines()[:25]))[0]
    assert [line.partition("#")[0].split() for line in first.splitlines()] == [
        ["make", "run"],
        ["make", "test"],
    ]


def test_every_gpu_of_the_catalogue_says_what_its_power_rests_on():
    table = (DOCS / "methods/simulated_gpus.md").read_text()

    first_cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, re.MULTILINE)

    named = [key for cell in first_cells for key in re.findall(r"\w+", cell)]
    assert sorted(named) == sorted(GPUS)


def test_every_reason_of_an_invalid_measurement_is_explained():
    table = (DOCS / "methods/validity.md").read_text()

    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", table, re.MULTILINE)

    assert rows == sorted(get_args(InvalidReason))


def test_every_public_name_says_what_it_is():
    silent = [name for name in joulelab.__all__ if not getattr(joulelab, name).__doc__]

    assert silent == []


@pytest.mark.parametrize("page", LIVING, ids=name_of)
def test_pages_use_the_words_of_the_field(page):
    lines = [line for line in page.read_text().splitlines() if not line.startswith("### `")]
    text = " ".join(" ".join(lines).split())  # a message that is quoted is as it is
    text = text.partition("## Words that no name holds")[0]  # the list of them

    assert [text[max(0, m.start() - 30) : m.end() + 20] for m in OURS.finditer(text)] == []


@pytest.mark.parametrize(
    "message",
    re.findall(r"^### `([^`]+)`", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE),
)
def test_a_message_that_is_explained_is_one_that_is_given(message):
    if message in FROM_OUTSIDE:
        return
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)

    assert any(pattern.search(said) for said in messages())


@cache
def messages():
    """Every text in the sources; what is filled into it is left out."""
    found = [(ROOT / "Makefile").read_text()]
    for folder in ("platform", "actors"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = [v.value if isinstance(v, ast.Constant) else "" for v in node.values]
                    found.append("".join(parts))
    return found
