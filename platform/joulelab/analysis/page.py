"""Answers as files: JSON, numbers, Markdown, or a page of one style that needs nothing else.

And the templates of pages and of paragraphs, with what they may write numbers with.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.quantities import (
    change,
    counted,
    percent,
    point_name,
    quantity,
    uncertain,
    upper,
)
from joulelab.analysis.table import Frame, markdown, plain_cells
from joulelab.core.additive import Interval
from joulelab.tracking.durable import write_whole

if TYPE_CHECKING:  # Jinja comes with plots
    from jinja2 import Environment


def text(template: str, **values: object) -> str:
    """Return the paragraph that a template of this package makes of ``values``, on one line."""
    return " ".join(texts(template, **values))


def texts(template: str, **values: object) -> list[str]:
    """Return the paragraphs of a template of text, a line each; those with nothing are left out."""
    made = environment().get_template(template).render(**values)
    lines = (re.sub(r"[ \n]+", " ", part).strip(" ") for part in made.split("\n\n"))
    return [line for line in lines if line]


@cache
def environment() -> "Environment":
    """Return what makes text of the templates of this package; HTML is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

    made = Environment(
        autoescape=select_autoescape(("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(read),
        undefined=StrictUndefined,
    )
    made.globals["sensor_class"] = SENSOR_CLASS
    made.filters |= {
        "change": change,
        "counted": counted,
        "instant": _instant,
        "negative": lambda span: Interval(value=-span.value, low=-span.high, high=-span.low),
        "percent": percent,
        "point": point_name,
        "quantity": lambda value, unit="", digits=3: quantity(value, unit, digits=digits).strip(),
        "share": lambda value, decimals=0: f"{value:.{decimals}%}",
        "uncertain": uncertain,
        "upper_first": upper,
    }
    return made


def _instant(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).astimezone().isoformat(" ", timespec="seconds")


def read(name: str) -> str:
    """Return a file of this package."""
    return (files("joulelab.analysis") / name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a command found: as JSON has it, as numbers in SI units, in sentences and tables.

    ``page`` makes its HTML page, by default of the sentences and tables.
    """

    content: object
    frame: Frame
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    page: Callable[[], str] | None = None

    @property
    def json(self) -> str:
        """One JSON object; what is no number has no place in it."""
        return json.dumps(self.content, indent=2, default=dict, allow_nan=False)

    def write(self, path: Path) -> Path:
        """Write it to a file, whole or not at all, as the suffix says; return the path.

        Raises TrackingError if it cannot be written.
        """
        match path.suffix:
            case ".json":
                write_whole(path, f"{self.json}\n")
            case ".csv":
                self.frame.write(path)
            case ".parquet":
                self.frame.to_pandas().to_parquet(path)
            case ".md":
                write_whole(path, "\n\n".join([*self.sentences, *map(markdown, self.tables)]))
            case _:
                write_whole(path, self.page() if self.page else self._page())
        return path

    def _page(self) -> str:
        return render(title="joulelab", sentences=self.sentences, tables=self.tables)


def render(template: str = "page.html.j2", **values: object) -> str:
    """Return the page that a template of this package makes of ``values``, such as its title."""
    from markupsafe import Markup

    made = environment()
    made.filters["cells"] = plain_cells
    made.globals["table"] = made.get_template("macros.html.j2").module.table  # type: ignore[attr-defined]
    css = Markup(read("report.css"))  # noqa: S704 - our own
    return made.get_template(template).render(css=css, **values)
