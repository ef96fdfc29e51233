"""Answers as files: JSON, numbers, Markdown, or a page of one style that needs nothing else."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from joulelab.analysis.table import Frame, markdown, plain_cells
from joulelab.analysis.templates import environment, read
from joulelab.tracking.durable import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a command found: as JSON has it, as numbers in SI units, in sentences and tables.

    ``page`` makes its HTML page, by default of the sentences and tables. ``content`` may be a
    function that makes it, as what nobody asks for need not be made.
    """

    content: object
    frame: Frame
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    page: Callable[[], str] | None = None

    @property
    def json(self) -> str:
        """One JSON object; what is no number has no place in it."""
        content = self.content() if callable(self.content) else self.content
        return json.dumps(content, indent=2, default=dict, allow_nan=False)

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
