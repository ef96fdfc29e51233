"""Pages: one HTML file each that needs nothing else, from templates with one style."""

from importlib.resources import files

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from joulelab.analysis.quantities import brief
from joulelab.analysis.table import plain_cells
from joulelab.analysis.wording import percent


def render(template: str = "page.html.j2", **values: object) -> str:
    """Return the page that a template of this package makes of ``values``, such as its title."""
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_read)
    )
    environment.filters |= {
        "percent": percent,
        "quantity": lambda value, unit="": brief(value, unit).strip(),
        "cells": plain_cells,
    }
    environment.globals["table"] = environment.get_template("macros.html.j2").module.table  # type: ignore[attr-defined]
    css = Markup(_read("report.css"))  # noqa: S704 - our own
    return environment.get_template(template).render(css=css, **values)


def _read(name: str) -> str:
    return (files("joulelab.analysis") / name).read_text(encoding="utf-8")
