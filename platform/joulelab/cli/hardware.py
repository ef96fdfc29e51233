"""``joulelab hardware``: GPUs of the user's own, added to the catalogue, listed and checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Column
from rich.text import Text

from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.cli.hardware_add import Add
from joulelab.cli.processors import figure_fields, processor_facts
from joulelab.cli.terminal import Printing
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS, GpuSpec
from joulelab.hardware.board_file import is_taken
from joulelab.hardware.catalogue import board_of, read_sections
from joulelab.hardware.new_board import check_names
from joulelab.hardware.places import check_key, place_of, user_folder, user_paths
from joulelab.hardware.processors import PROCESSORS


@dataclass(frozen=True, kw_only=True)
class List(Printing):
    """List the GPUs of your own, with what their figures rest on."""

    def run(self) -> int:
        """Print them; 1 if one cannot be used."""
        found = entries()
        problems = [Text(each.problem, style="red") for each in found if each.problem]
        usable = [each for each in found if not each.problem]
        none = "No GPU of your own is there; `joulelab hardware add` makes one."
        table = _table(usable) if found else none
        self.show([each.fields() for each in found], lambda: [table, *problems])
        return int(bool(problems))


@dataclass(frozen=True, kw_only=True)
class Show(Printing):
    """Show every figure of a GPU of the catalogue, with its status and source."""

    # Its key, as `joulelab processors --family gpu` lists it.
    name: Annotated[str, tyro.conf.Positional]

    def run(self) -> int:
        """Print them."""
        processor, place = PROCESSORS[self.name], None
        if processor.key in set(GPUS):
            place = str(place_of("gpus", processor.key))
        figures = {name: figure_fields(one) for name, one in processor.figures.items()}
        self.show(
            {"key": processor.key, "place": place, "figures": figures},
            lambda: [f"From {place}.", processor_facts(processor)],
        )
        return 0


@dataclass(frozen=True, kw_only=True)
class Check(Printing):
    """Check all files of GPUs of your own; every figure that is missing or cannot be is named.

    Names of files come first: where one cannot be a key, no file can be used.
    """

    def run(self) -> int:
        """Print what is wrong; 1 if anything is."""
        found = entries()
        wrong = [each for each in found if each.problem]
        verdict = f"Files in {user_folder()}: {len(user_paths())}; wrong: {len(wrong)}."
        self.show(
            {"folder": str(user_folder()), "boards": [each.fields() for each in found]},
            lambda: [verdict, *(each.problem for each in wrong)],
        )
        return int(bool(wrong))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of the user's, and the GPU that it holds or why it holds none."""

    path: Path
    spec: GpuSpec | None = None
    problem: str = ""

    @classmethod
    def of(cls, path: Path) -> "Entry":
        """Read ``path`` as one of the user's files, apart from the others' names."""
        try:
            read_sections(path)
            spec = board_of(path.stem, path.read_text(encoding="utf-8"), path)
            PROCESSORS[path.stem]
        except ConfigError as error:
            return cls(path=path, problem=str(error))
        return cls(path=path, spec=spec)

    def named(self) -> "Entry":
        """Return it with its problem, if another GPU has its name."""
        try:
            check_names(GPUS[self.path.stem])
        except ConfigError as error:
            return replace(self, spec=None, problem=f"{self.path}: {error}")
        return self

    def fields(self) -> dict[str, object]:
        """Return what JSON says of it."""
        known: dict[str, object] = {"key": self.path.stem, "path": str(self.path)}
        if self.spec is None:
            return {**known, "problem": self.problem}
        return {
            **known,
            "product_names": list(self.spec.product_names),
            "tier": self.spec.chip.tier,
            **counts(self.spec),
        }


def entries() -> list[Entry]:
    """Return what the user's files hold; those that cannot have their names alone, if any."""
    paths = user_paths()
    misnamed = [Entry(path=path, problem=problem) for path in paths if (problem := _misnamed(path))]
    found = misnamed or [Entry.of(path) for path in paths]
    return found if any(each.problem for each in found) else [each.named() for each in found]


def _misnamed(path: Path) -> str:
    try:
        check_key(path.stem, path)
    except ConfigError as error:
        return str(error)
    return ""


def counts(spec: GpuSpec) -> dict[str, int]:
    """Return how many figures of a GPU come from where."""
    figures = spec.figures.values()
    taken = sum(map(is_taken, figures))
    stated = sum(one.status == "U" for one in figures)
    fitted = sum(one.status == "F" and not is_taken(one) for one in figures)
    others = len(spec.figures) - taken - stated - fitted
    return {"stated": stated, "fitted": fitted, "others": others, "copied": taken}


def _table(found: Sequence[Entry]) -> Any:
    table = quiet_table(
        *words("GPU", "product"),
        *numbers("stated", "fitted", "other", "copied"),
        Column("tier", justify="center"),
        Column("file", overflow="fold"),
        caption="Figures by where they come from; those copied from another GPU are estimates.",
    )
    for each in found:
        spec = each.spec
        if spec is not None:
            origins = map(str, counts(spec).values())
            names = ", ".join(spec.product_names)
            table.add_row(spec.key, names, *origins, spec.chip.tier, str(each.path))
    return table


SUBCOMMANDS: dict[str, Callable[..., Any]] = {
    "add": Add,
    "list": List,
    "show": Show,
    "check": Check,
}


def parse(arguments: Sequence[str]) -> Any:
    """Read the command line."""
    return tyro.extras.subcommand_cli_from_dict(
        SUBCOMMANDS,
        args=list(arguments),
        prog="joulelab hardware",
        description="GPUs of your own, in a folder beside the catalogue of the package.",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
