"""Which value each storage holds, and how many bytes the values of a program occupy.

A value is what one write left in a storage. All views of a storage are the same value, and a
write through any of them makes a new one.
"""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from joulelab.errors import ConfigError

Role = Literal["parameter", "state", "input", "made"]
"""Of the network; of the optimizer; passed in otherwise; made in the program."""


@dataclass(slots=True)
class Storage:
    """One storage that is alive.

    Attributes:
        role: Where it comes from.
        value: Identifier of what it holds.
        is_written: Whether anything was written to it; what was passed in was.
    """

    role: Role
    value: int
    size_b: int
    is_written: bool
    released: weakref.ref[torch.UntypedStorage]


class Storages:
    """The storages of a program that are alive.

    Attributes:
        live_b: Bytes made in the program and alive, less those passed in and freed since.
        peak_live_b: Most of them so far.
        size_b: Bytes by role of all storages that were ever known.
    """

    def __init__(self) -> None:
        self.live_b = 0
        self.peak_live_b = 0
        self.size_b: Counter[Role] = Counter()
        self._alive: dict[int, Storage] = {}
        self._num_values = 0

    def declare(self, tensors: Iterable[torch.Tensor], role: Role) -> int:
        """Make the storages of ``tensors`` known; return the bytes of those that were not."""
        before_b = self.size_b[role]
        for tensor in tensors:
            for part in dense_parts(tensor):
                self.of(part, role)
        return self.size_b[role] - before_b

    def of(self, tensor: torch.Tensor, role: Role = "input") -> Storage:
        """Return the storage of ``tensor``, which has ``role`` if it was not known yet."""
        try:
            untyped = tensor.untyped_storage()
        except NotImplementedError as error:
            raise ConfigError(
                f"Only dense tensors are traced, got one of layout {tensor.layout}. "
                "Convert it with to_dense()."
            ) from error
        known = self._alive.get(untyped._cdata)  # noqa: SLF001
        if known is None:
            return self._add(untyped, role)
        if known.size_b != untyped.nbytes():  # resized
            self._count(known.role, untyped.nbytes() - known.size_b)
            known.size_b = untyped.nbytes()
        return known

    def write(self, storage: Storage) -> int:
        """Return the identifier of a new value, which ``storage`` holds from now on."""
        storage.value = self._new_value()
        storage.is_written = True
        return storage.value

    def _add(self, untyped: torch.UntypedStorage, role: Role) -> Storage:
        key, size_b = untyped._cdata, untyped.nbytes()  # noqa: SLF001
        released = weakref.ref(untyped, lambda _: self._release(key))
        storage = Storage(role, self._new_value(), size_b, role != "made", released)
        self._alive[key] = storage
        self._count(role, size_b)
        return storage

    def _count(self, role: Role, size_b: int) -> None:
        self.size_b[role] += size_b
        if role == "made":
            self.live_b += size_b
            self.peak_live_b = max(self.peak_live_b, self.live_b)

    def _release(self, key: int) -> None:
        self.live_b -= self._alive.pop(key).size_b

    def _new_value(self) -> int:
        self._num_values += 1
        return self._num_values


def dense_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield what holds the bytes of ``tensor``: itself, or the parts of a quantised one."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from dense_parts(getattr(tensor, name))


def tensors_held(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in ``value``: a nest of containers, and of objects that hold tensors."""
    return _tensors_held(value, set())


def _tensors_held(value: object, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        for part in _parts(value):
            yield from _tensors_held(part, seen)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return ()
    return vars(value).values()
