"""``joulelab study NAME``: run a script of ``experiments/`` from any folder."""

import ast
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

STUDIES = {
    "attribution": "attribution.py",
    "baseline": "baseline.py",
    "batch": "batch_scaling.py",
    "diffusion": "diffusion_study.py",
    "dvfs": "dvfs_sweep.py",
    "length": "length_scaling.py",
    "matrix": "workload_matrix.py",
    "model-size": "model_size.py",
    "precision": "precision_study.py",
    "qep": "qep_search.py",
    "search": "energy_search.py",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Run a study."""

    script: Path
    arguments: tuple[str, ...]

    def run(self) -> int:
        """Carry it out as the script would by itself; it ends the process."""
        sys.argv = [str(self.script), *self.arguments]
        runpy.run_path(str(self.script), run_name="__main__")
        return 0


def parse(arguments: Sequence[str]) -> Study:
    """Read the name of a study and what follows it; without a name, all are listed."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _list()
        sys.exit(0)
    name, *rest = arguments
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    return Study(script=_folder() / STUDIES[name], arguments=tuple(rest))


def study_command() -> str | None:
    """Return the command by which the script that runs was started; ``None`` without one."""
    named = {script: name for name, script in STUDIES.items()}.get(Path(sys.argv[0]).name)
    before = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv[1:])]
    return f"joulelab study {named}" if before[-2:] == ["study", named] else None


Settings = TypeVar("Settings")


def parse_study(kind: type[Settings], description: str | None) -> Settings:
    """Read the command line of a script whose settings are ``kind``."""
    import tyro

    return tyro.cli(kind, description=description, prog=study_command())


def _list() -> None:
    print("usage: joulelab study NAME [OPTIONS]\n")
    width = max(map(len, STUDIES))
    for name, script in STUDIES.items():
        print(f"  {name:{width}}  {_summary(_folder() / script)}")
    print("\njoulelab study NAME --help tells more.")


def _folder() -> Path:
    """Where the scripts are: within the installed package, or in the checkout around it."""
    package = Path(str(files("joulelab_actors")))
    for folder in (package / "experiments", package.parents[1] / "experiments"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"The scripts of the studies must lie in {package / 'experiments'}.")


def _summary(script: Path) -> str:
    docstring = ast.get_docstring(ast.parse(script.read_text())) or ""
    return docstring.partition("\n\n")[0].replace("\n", " ")
