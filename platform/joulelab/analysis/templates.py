"""Templates of pages and of paragraphs, and what they may write numbers with."""

import re
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.quantities import (
    change,
    counted,
    percent,
    point_name,
    quantity,
    spell,
    uncertain,
    upper,
)
from joulelab.core.additive import Interval

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
        "spell": spell,
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
