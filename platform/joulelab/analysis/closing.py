"""What a report ends with."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from joulelab.analysis.table import fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What a report ends with: a table over several sections, and what must be read with it.

    Attributes:
        answer: What it shows, in words.
        lay: Lays out the table without the columns of some heads.
        notes: What must be read with it.
        minor: Heads of columns that go where there is no room, the first one first.
    """

    name: str
    answer: str
    lay: Callable[[Collection[str]], Table]
    notes: Sequence[str]
    minor: Sequence[str] = ()

    @property
    def table(self) -> Table:
        """The whole table."""
        return self.lay(())

    def fitting(self, console: Console) -> Table:
        """Lay it out as wide as ``console`` allows: columns go, never digits."""
        return fitting(console, self.lay, self.minor)
