"""Name -> implementation tables for everything that can be plugged in.

A table is a literal dict of lazy ``"module:attribute"`` targets, so that listing the
choices imports nothing, and adding one is a new file plus one line in its table.
"""

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from joulelab.errors import UnknownNameError

T = TypeVar("T")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not among ``known``, with the closest ones."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownNameError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")


class Registry(Mapping[str, T], Generic[T]):
    """Read-only mapping from a name to an implementation, imported on first use.

    Args:
        kind: What the entries are, in the singular, for messages ("workload").
        targets: ``{name: "module:attribute"}``.
    """

    def __init__(self, kind: str, targets: Mapping[str, str]) -> None:
        self._kind = kind
        self._targets = dict(targets)

    def __getitem__(self, name: str) -> T:
        """Import and return the implementation called ``name``.

        Raises:
            UnknownNameError: If there is no such entry; names the closest ones.
        """
        try:
            target = self._targets[name]
        except KeyError:
            raise unknown_name(self._kind, name, self._targets) from None
        module, _, attribute = target.partition(":")
        return cast("T", getattr(importlib.import_module(module), attribute))

    def __contains__(self, name: object) -> bool:
        """Whether there is such an entry; imports nothing."""
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)
