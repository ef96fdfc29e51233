"""The table of workloads, and programs of users by their names: ``"train.py:step"``."""

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.errors import ConfigError, JouleLabError, UserCodeError
from joulelab.registry import Registry, unknown_name
from joulelab.workloads.base import Workload
from joulelab.workloads.program import workload_type

_NAME = re.compile(r"(?P<place>.+\.py|[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_][\w.]*)")
_MISMATCH = re.compile(r"\w\(\) (takes|missing|got) ")
"""How Python says that a call does not match the arguments of what is called."""
_PACKAGE = Path(__file__).parents[1].resolve()
WorkloadType = type[Workload[Any]]


def executed(path: Path) -> ModuleType:
    """Execute the file at ``path``, which may import its neighbours, and return its module."""
    name = f"joulelab_user_{path.stem}"
    while name in sys.modules and sys.modules[name].__file__ != str(path):
        name += "_"  # a file of that name in another folder
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        guarded(path, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    finally:
        sys.path.remove(folder)
    return module


def guarded(path: Path, run: Callable[[], Any]) -> Any:
    """Return what ``run`` returns; UserCodeError, with its own frames, if the user's code fails."""
    try:
        return run()
    except Exception as error:  # code of the user's may raise anything
        frames = _frames_in(path, error)
        if not frames and not _is_of_call(error):
            raise
        raise UserCodeError(f"{path} failed:\n{_own_lines(frames, error)}") from error


def _own_lines(frames: Sequence[traceback.FrameSummary], error: Exception) -> str:
    own = [] if isinstance(error, SyntaxError) else traceback.format_list(frames)
    is_ours = isinstance(error, JouleLabError)
    what = [str(error)] if is_ours else traceback.format_exception_only(error)
    return "".join([*own, *what]).rstrip()


def _frames_in(path: Path, error: BaseException) -> list[traceback.FrameSummary]:
    folder = path.parent.resolve()
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith("<")  # of no file, such as the importer's
        and (place := Path(frame.filename).resolve()).is_relative_to(folder)
        and "site-packages" not in place.parts
        and not place.is_relative_to(_PACKAGE)
    ]
    wrong_file = isinstance(error, SyntaxError) and error.filename is not None
    return own or (frames[-1:] if wrong_file else [])


def _is_of_call(error: Exception) -> bool:
    """Whether a library failed below user's code that it calls itself, or a call has no match."""
    if isinstance(error, JouleLabError):
        return False
    *_, last = traceback.extract_tb(error.__traceback__)
    is_outside = not Path(last.filename).resolve().is_relative_to(_PACKAGE)
    return is_outside or (isinstance(error, TypeError) and bool(_MISMATCH.search(str(error))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramName:
    """Where a program is: a Python file or a module's dotted name, and what it is called there."""

    place: str
    attribute: str

    @property
    def is_file(self) -> bool:
        """Whether it is in a file, rather than in a module that Python finds by its name."""
        return self.place.endswith(".py")

    def texts(self) -> Iterator[str]:
        """Yield names as results may have them, the shortest first, to tell equal files apart."""
        if not self.is_file:
            yield f"{self.place}:{self.attribute}"
            return
        path, here = self.path, Path.cwd().resolve()
        if path.is_relative_to(here):
            yield f"{path.relative_to(here)}:{self.attribute}"
        for parts in range(1, len(path.parts)):
            yield f"{Path(*path.parts[-parts:])}:{self.attribute}"

    @property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.place).expanduser().resolve()


def program_name(text: str) -> ProgramName | None:
    """Read ``"file.py:attribute"`` or ``"package.module:attribute"``; ``None`` if it is neither."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    return ProgramName(place=found["place"], attribute=found["attribute"])


class Programs:
    """The programs of this process, each found once; finding one executes its file."""

    def __init__(self) -> None:
        self._kinds: dict[str, type[Workload[Any]]] = {}
        self._modules: dict[Path, ModuleType] = {}
        self.origins: dict[str, ModuleType] = {}
        """The module of each program that was found by its name."""
        self._paths: dict[str, Path] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def hold(self, name: str, kind: type[Workload[Any]]) -> None:
        """Know ``kind`` by ``name`` from now on, in this process alone."""
        self._kinds[name] = kind

    def name_of(self, settings_type: type[Any]) -> str | None:
        """Return the name of the program whose settings these are; ``None`` if there is none."""
        known = self._kinds.items()
        return next((name for name, kind in known if kind.settings_type is settings_type), None)

    def known_as(self, text: str) -> str:
        """Return the name that what a user calls ``text`` has in this process, and in results.

        Files of one name in several folders are several programs: the first that is found has the
        short name. Raises ConfigError as :meth:`find` does.
        """
        name = program_name(text)
        if name is None or not name.is_file:
            self.find(text)
            return text
        is_free = (
            each
            for each in name.texts()
            if self._paths.get(each, name.path) == name.path
            and (each in self._paths or each not in self._kinds)
        )
        known = next(is_free)
        if known not in self._kinds:
            self.place(known, self._module(name), name.attribute)
            self._paths[known] = name.path
        return known

    def find(self, text: str) -> type[Workload[Any]]:
        """Return the program called ``text``; its file is executed the first time.

        Raises ConfigError if there is none or it fails, UnknownNameError without such an attribute.
        """
        if text in self._kinds:
            return self._kinds[text]
        name = program_name(text)
        if name is None:
            raise ConfigError(f"A program is FILE.py:NAME or MODULE:NAME, got {text!r}.")
        if name.is_file:
            return self._kinds[self.known_as(text)]
        return self.place(text, self._module(name), name.attribute)

    def place(self, name: str, module: ModuleType, attribute: str) -> type[Workload[Any]]:
        """Know what ``module`` calls ``attribute`` by ``name``, and return it."""
        target: object = module
        for part in attribute.split("."):
            if not hasattr(target, part):
                known = [
                    key
                    for key, value in vars(target).items()
                    if callable(value) and getattr(value, "__module__", None) == module.__name__
                ]
                raise unknown_name(f"program of {name.rpartition(':')[0]}", attribute, known)
            target = getattr(target, part)
        kind = workload_type(target)
        self._kinds[name], self.origins[name] = kind, module
        return kind

    def execute(self, path: Path) -> ModuleType:
        """Return the module of the file at ``path``, which is executed once."""
        path = path.resolve()
        if path not in self._modules:
            self._modules[path] = executed(path)
            if str(path.parent) not in sys.path:
                sys.path.append(str(path.parent))  # for what it imports while it runs
        return self._modules[path]

    def _module(self, name: ProgramName) -> ModuleType:
        if name.is_file:
            path = Path(name.place).expanduser()
            if not path.is_file():
                raise ConfigError(f"There is no file {path}, in which {name.attribute} should be.")
            return self.execute(path)
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # as `python -m` has it
        try:
            return importlib.import_module(name.place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name.place}.".startswith(f"{error.name}."):
                raise ConfigError(f"{name.place} cannot be imported: {error}") from error
            raise ConfigError(
                f"There is no module {name.place} here, in which {name.attribute} should be; "
                "install it where it is to run, or name a file: path/to/file.py:NAME."
            ) from error
        except Exception as error:  # code of the user's may raise anything
            raise ConfigError(f"{name.place} cannot be imported: {error!r}") from error


class WorkloadRegistry(Registry[WorkloadType]):
    """Workloads by their names, and the programs found so far, which are no entries."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        super().__init__("workload", targets, group="joulelab.workloads")
        self.programs = Programs()

    @override
    def __getitem__(self, name: str) -> WorkloadType:
        """Return the workload, or the program of a file that is executed, called ``name``.

        Raises UnknownNameError if there is none; names the closest, ConfigError if it fails.
        """
        if name in self.programs or program_name(name) is not None:
            return self.programs.find(name)
        return super().__getitem__(name)

    def of(self, configuration: Configuration) -> Workload[Any]:
        """Make the workload of ``configuration``, not prepared; ConfigError if there is none."""
        return self[configuration.workload].from_knobs(dict(configuration.knobs))

    def known_as(self, name: str) -> str:
        """Return how results call what a user calls ``name``; see :meth:`Programs.known_as`."""
        return name if program_name(name) is None else self.programs.known_as(name)

    @override
    def __contains__(self, name: object) -> bool:
        return name in self.programs or super().__contains__(name)

    @override
    def accept(self, name: str, made: object) -> WorkloadType:
        return workload_type(made)

    def name_of(self, settings: object) -> str:
        """Return whose ``settings`` these are: a workload's, else a program's, else ConfigError."""
        kind = type(settings)
        for name, each in self.loadable().items():
            if each.settings_type is kind:
                return name
        known = self.programs.name_of(kind)
        if known is not None:
            return known
        raise ConfigError(f"{kind.__name__} is neither a program nor the settings of a workload.")
