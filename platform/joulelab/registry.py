"""Name -> implementation tables for everything that can be plugged in.

A table is a literal dict of lazy ``"module:attribute"`` targets, so that listing the
choices imports nothing, and adding one is a new file plus one line in its table. Packages that are
installed add to it by an entry point of the table's group.
"""

import difflib
import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, cast

from joulelab.errors import ConfigError, UnknownNameError

T = TypeVar("T")

logger = logging.getLogger(__name__)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not among ``known``, with the closest ones."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownNameError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")


class Plugin(NamedTuple):
    """An entry of another package.

    Attributes:
        target: ``"module:attribute"``.
        package: The package's name.
    """

    target: str
    package: str


class Registry(Mapping[str, T], Generic[T]):
    """Read-only mapping from a name to an implementation, imported on first use.

    Args:
        kind: What the entries are, in the singular, for messages ("workload").
        targets: ``{name: "module:attribute"}``.
        group: Entry-point group by which other packages add entries; ``None`` for none. A name of
            ``targets`` cannot be taken over.
        base: Class that entries of other packages derive from; ``None`` if they are no classes.
        removed: Names of entries that were removed, and why, with what to take instead.
    """

    def __init__(
        self,
        kind: str,
        targets: Mapping[str, str],
        *,
        group: str | None = None,
        base: type[Any] | None = None,
        removed: Mapping[str, str] | None = None,
    ) -> None:
        self._kind = kind
        self._targets = dict(targets)
        self._group = group
        self._base = base
        self._removed = removed or {}
        self._found: dict[str, Plugin] | None = None
        self._made: dict[str, T] = {}
        self._warned: set[str] = set()

    def __getitem__(self, name: str) -> T:
        """Import and return the implementation called ``name``.

        Raises:
            UnknownNameError: If there is no such entry; names the closest ones.
            ConfigError: If it is another package's, and cannot be imported or is something else.
        """
        if name in self._targets:
            return cast("T", _import(self._targets[name]))
        if name not in self._plugins and name in self._removed:
            raise UnknownNameError(f"The {self._kind} {name!r} was removed: {self._removed[name]}.")
        if name not in self._plugins:
            raise unknown_name(self._kind, name, self)
        if name not in self._made:
            self._made[name] = self._loaded(name, self._plugins[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such an entry; imports nothing."""
        return name in self._targets or name in self._plugins

    def __iter__(self) -> Iterator[str]:
        yield from self._targets
        yield from self._plugins

    def __len__(self) -> int:
        return len(self._targets) + len(self._plugins)

    def loadable(self) -> dict[str, T]:
        """Import and return all entries; those of others that fail are logged once."""
        entries: dict[str, T] = {}
        for name in self:
            try:
                entries[name] = self[name]
            except ConfigError as error:
                if name not in self._warned:
                    logger.warning("%s", error)
                self._warned.add(name)
        return entries

    def accept(self, name: str, made: object) -> T:
        """Return what another package's entry point ``name`` stands for, as an entry.

        Raises:
            ConfigError: If it cannot be one.
        """
        base = self._base
        if base is not None and not (isinstance(made, type) and issubclass(made, base)):
            raise ConfigError(f"a {self._kind} must be a subclass of {base.__name__}, got {made!r}")
        if getattr(made, "name", name) != name:  # what it saved could not be found again
            raise ConfigError(
                f"a {self._kind} must have the name of its entry point, {name!r}, as its own: "
                f"{getattr(made, '__name__', made)} has {getattr(made, 'name', None)!r}"
            )
        return cast("T", made)

    @property
    def _plugins(self) -> dict[str, Plugin]:
        """Entries of other packages; looked for once, since that reads every package's metadata."""
        if self._found is None:
            found = {} if self._group is None else _plugins_of(self._group)
            self._found = {name: each for name, each in found.items() if name not in self._targets}
            for name in found.keys() - self._found.keys():
                logger.warning(
                    "The %s %r of the package %s is left out: a built-in one has that name, and "
                    "results under it are of that. Give it another.",
                    *(self._kind, name, found[name].package),
                )
        return self._found

    def _loaded(self, name: str, plugin: Plugin) -> T:
        try:
            return self.accept(name, _import(plugin.target))
        except Exception as error:  # another package may fail in any way of its own
            raise ConfigError(
                f"The {self._kind} {name!r} of the package {plugin.package} ({plugin.target}) "
                f"cannot be used: {type(error).__name__}: {str(error).rstrip('.')}. Repair or "
                "uninstall it; all else works."
            ) from error


def _import(target: str) -> object:
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(importlib.import_module(module))


def _plugins_of(group: str) -> dict[str, Plugin]:
    from importlib.metadata import entry_points  # 0.1 s that most commands do without

    return {
        each.name: Plugin(each.value, "?" if each.dist is None else each.dist.name)
        for each in entry_points(group=group)
    }
