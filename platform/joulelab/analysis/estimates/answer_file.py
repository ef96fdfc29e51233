"""Answers of a few sentences and tables as files: JSON, CSV, Markdown or HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from json import dumps
from pathlib import Path

from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.export import to_rows
from joulelab.tracking.durable import write_whole

SUFFIXES = (".json", ".csv", ".md", ".html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a file holds.

    Attributes:
        content: The JSON object.
        rows: Lines of the CSV, all with the same columns, in SI units.
        sentences: What Markdown and HTML begin with.
        tables: As the terminal shows them.
    """

    content: Mapping[str, object]
    rows: Sequence[Mapping[str, object]]
    sentences: Sequence[str]
    tables: Sequence[Table]


def write_answer(answer: Answer, path: Path) -> None:
    """Write ``answer`` to a file with one of :data:`SUFFIXES`, whole or not at all.

    Raises:
        TrackingError: If it cannot be written.
    """
    match path.suffix:
        case ".json":
            text = dumps(answer.content, indent=2) + "\n"
        case ".csv":
            text = to_rows(list(answer.rows[0]), answer.rows)
        case ".md":
            text = "\n".join([*answer.sentences, *map(_markdown, answer.tables)])
        case _:
            text = _page(answer)
    write_whole(path, text)


def _lines(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of ``table`` as plain text."""
    heads = [_plain(column.header) for column in table.columns]
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    return heads, [list(row) for row in zip(*columns, strict=True)]


def _plain(cell: object) -> str:
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return " ".join(text.split())


def _markdown(table: Table) -> str:
    heads, rows = _lines(table)
    title = f"\n## {_plain(table.title)}\n" if table.title else ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join([title, *(f"| {' | '.join(line)} |" for line in lines), ""])


def _page(answer: Answer) -> str:
    css = (files("joulelab.analysis") / "report.css").read_text(encoding="utf-8")
    sentences = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in answer.sentences)
    tables = "".join(map(_html, answer.tables))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>joulelab</title>\n<style>{css}</style>\n<main>\n{sentences}{tables}</main>\n"
    )


def _html(table: Table) -> str:
    heads, rows = _lines(table)
    title = f"<h2>{escape(_plain(table.title))}</h2>\n" if table.title else ""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return f"{title}<table>\n<tr>{head}</tr>\n{body}</table>\n"
