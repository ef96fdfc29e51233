"""Studies: ``joulelab study NAME``, and command lines in which a workload is chosen."""

import ast
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from importlib.resources import files
from inspect import Parameter, Signature
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import tyro

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.registry import Registry, unknown_name
from joulelab.tracking.addresses import discreet
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader, flat_settings
from joulelab.workloads import WORKLOADS
from joulelab.workloads.programs import program_name

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
_KINDS = {script: name for name, script in STUDIES.items()}


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
    named = _KINDS.get(Path(sys.argv[0]).name)
    before = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv[1:])]
    return f"joulelab study {named}" if before[-2:] == ["study", named] else None


Settings = TypeVar("Settings")


def parse_study(kind: type[Settings], description: str | None) -> Settings:
    """Read the command line of a script whose settings are ``kind``.

    Raises ConfigError if it goes on with a study of other settings.
    """
    parsed = tyro.cli(kind, description=description, prog=study_command())
    _check_same_study(parsed)
    return parsed


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


def parse_with_workload(kind: Any, arguments: Sequence[str] | None = None, **options: Any) -> Any:
    """Read a command line in which a workload is chosen; see :func:`_parsed`.

    Raises ConfigError if it goes on with a study of other settings.
    """
    parsed = _parsed(kind, arguments, **options)
    _check_same_study(parsed)
    return parsed


def _parsed(
    kind: Any,
    arguments: Sequence[str] | None = None,
    *,
    among: Mapping[str, object] = WORKLOADS,
    default: Any = None,
    **options: Any,
) -> Any:
    """Read a command line in which a workload is chosen and its settings become options.

    A program, such as ``train.py:step``, can be named in place of an entry of a registry that knows
    programs. ``kind`` is a generic dataclass of the type of the workload's settings; without a
    ``default`` for an empty command line the choice is mandatory. Raises UnknownNameError if there
    is no such workload; names the closest.
    """
    words = _workload_first(list(sys.argv[1:] if arguments is None else arguments), among)
    config = (tyro.conf.CascadeSubcommandArgs, tyro.conf.FlagCreatePairsOff)
    options = {"prog": study_command(), **options}
    if isinstance(among, Registry) and (at := _place_of_program(words)) is not None:
        name = WORKLOADS.known_as(words.pop(at))
        among[name]  # refuses what lacks what is needed here
        settings = knob_options(WORKLOADS[name].settings_type, kind)
        return tyro.cli(cast("Any", kind)[settings], args=words, config=config, **options)
    if words and not words[0].startswith("-") and words[0] not in among:
        raise _unknown(words[0], among)
    if words and words[0] in WORKLOADS:
        WORKLOADS[words[0]]  # a broken plug-in is left out of what can be chosen, not explained
    # Named by identity: tyro would guess by the fields, and takes the first with a constructor.
    usual: dict[str, Any] = {}
    if default is not None:
        usual[WORKLOADS.name_of(default.workload)] = {"default": default.workload}
    choices = tuple(
        Annotated[
            knob_options(workload.settings_type, kind),
            tyro.conf.subcommand(name, prefix_name=False, **usual.get(name, {})),
        ]
        for name, workload in WORKLOADS.loadable().items()
        if name in among
    )
    known = {} if default is None else {"default": default}
    command = cast("Any", kind)[Union[choices]]  # noqa: UP007  # made of a tuple
    return tyro.cli(command, args=words, config=config, **known, **options)


def _workload_first(words: list[str], among: Mapping[str, object]) -> list[str]:
    """Return ``words`` with a workload's name first: an option of several values would take it."""
    for index, (before, word) in enumerate(pairwise(words), start=1):
        if words[0] not in among and word in among and not before.startswith("-"):
            return [word, *words[:index], *words[index + 1 :]]
    return words


def _place_of_program(words: Sequence[str]) -> int | None:
    """Return which word names a program; one after an option is taken for its value."""
    for index, word in enumerate(words):
        is_value = index > 0 and words[index - 1].startswith("--") and "=" not in words[index - 1]
        name = None if word.startswith("-") else program_name(word)
        if name is not None and (name.is_file or not is_value):
            return index
    return None


def _unknown(name: str, among: Mapping[str, object]) -> ConfigError:
    if program_name(name) is not None:
        return ConfigError(
            f"This takes the workloads {', '.join(sorted(among))}, and no program such as {name}."
        )
    if name.endswith(".py"):
        return ConfigError(f"Say what of {name} is to be run, such as {name}:step.")
    if name in WORKLOADS:
        return ConfigError(f"This takes the workloads {', '.join(sorted(among))}, and not {name}.")
    return unknown_name("workload", name, among)


def knob_options(settings: type[Any], command: Any) -> Any:
    """Return ``settings`` for tyro, with options that differ from those of ``command``.

    A knob that is called as an option of the command, such as ``seed`` or ``device`` of a program
    of the user's, is ``--knob.NAME``.
    """
    taken = set(_options(command))
    if taken.isdisjoint(field.name for field in fields(settings)):
        return settings
    hints = get_type_hints(settings)
    parameters = [_parameter(field, hints[field.name], taken) for field in fields(settings)]

    def make(**values: Any) -> Any:
        return settings(**values)

    make.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # tyro reads both
    make.__annotations__ = {each.name: each.annotation for each in parameters}
    make.__doc__ = settings.__doc__
    return Annotated[settings, tyro.conf.arg(constructor=make)]


def _parameter(field: Field[Any], hint: Any, taken: set[str]) -> Parameter:
    if field.name in taken:
        hint = Annotated[hint, tyro.conf.arg(name=f"knob.{field.name}")]
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _options(command: Any) -> Iterator[str]:
    """Yield the names of the options of a command and of what it holds without a prefix."""
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if not any(getattr(note, "name", None) == "" for note in notes):
            yield name
        elif is_dataclass(kind):
            yield from _options(kind)


_MORE = frozenset(
    {"mode", "every", "clocks_mhz", "repeats", "sentinel_every", "order_seed", "seed"}
)
"""Settings that only say how much is measured, and in which order: more may be asked for."""


def _check_same_study(asked: Any) -> None:
    """Refuse the settings of a study if the folder of its name is of other ones.

    Where it runs, clocks, repeats, seeds and the budget may differ, and a matrix goes on with any
    cells. What lacks a name, or a folder, is new. Raises ConfigError if the script, the workload
    or a setting differs; TrackingError if the folder cannot be read.
    """
    lab = getattr(asked, "lab", None)
    study = getattr(lab, "study", None)
    if lab is None or study is None:
        return
    store = ResultStore(lab.study_dir(study))
    header = store.read_study()
    if header is None:
        return
    began, this = PurePath((*header.command, "")[0]).name, PurePath(sys.argv[0]).name
    if began != this and {began, this} <= _KINDS.keys():
        raise _refusal(store, f"kind {_KINDS[began]!r}", f"kind {_KINDS[this]!r}")
    _check_workload(asked, store, header)
    of, now = _fixed(header.settings), _fixed(flat_settings(asked))
    if "again" in now:
        return
    if other := [name for name in of.keys() & now if of[name] != now[name]]:
        raise _refusal(store, _words(of, other), _words(now, other))


def _check_workload(asked: Any, store: ResultStore, header: StudyHeader) -> None:
    workload = getattr(asked, "workload", None)
    if workload is None:
        return
    name = WORKLOADS.name_of(workload)
    known = header.workloads or {m.configuration.workload for m in store.read()}
    if known and name not in known:
        raise _refusal(store, ", ".join(sorted(known)), name)


def _fixed(settings: Iterable[tuple[str, KnobValue]]) -> dict[str, KnobValue]:
    return {
        name: discreet(value) if isinstance(value, str) else value
        for name, value in settings
        if not (name in _MORE or name.startswith("budget."))
        and (name.startswith("lab.procedure.") or not name.startswith("lab."))
    }


def _words(settings: Mapping[str, KnobValue], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={settings[name]}" for name in sorted(names))


def _refusal(store: ResultStore, of: str, now: str) -> ConfigError:
    return ConfigError(
        f"{store.folder} holds a study of {of}, but {now} is asked for; repeat the options that it "
        "began with, or give another name with --study."
    )
