"""How much Python a program runs on the host besides the kernels that it launches.

Between two launches an eager program calls modules, wrappers of tensor subclasses, views and much
else. Every call of a Python function, and every call that such a function makes of a compiled one,
is counted while the program is traced; what tracing itself runs is left out, and whether a class
is one of an abstract one, which Python works out once per process.

Where a tensor has a class of its own, as the weights of torchao do, PyTorch hands each function of
it, down to reading its shape, from compiled code to Python: that counts several calls.
"""

import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

_HANDED_OVER = ("__torch_function__", "__torch_dispatch__")
_CALLS_TO_HAND_OVER = 12
"""Calls that take as long as handing a function over, besides the Python that it is handed to.

A linear layer of torchao's fp8 hands over eight; without, it takes 7.6 us less for each, on a core
on which the calls of a module that does nothing take 0.6 us each."""

_OF_TRACING = (
    "/torch/_subclasses/",
    "/torch/utils/_python_dispatch.py",
    "/torch/utils/_device.py",
    "/torch/_compile.py",
    "/torch/_dynamo/",
    "/torch/_library/simple_registry.py",
    "/weakref.py",
    "/torch/_prims_common/",
    "/torch/_refs/",
    "/torch/fx/",
    "/joulelab/tracing/",
)
"""Code that runs, with all that it calls, because tensors have no memory or calls are recorded."""


class HostCalls:
    """Counts the calls of programs."""

    def __init__(self) -> None:
        self.count = 0

    def during(self, program: Callable[[], object]) -> Callable[[], object]:
        """Return ``program`` such that its calls are counted."""

        def counted() -> object:
            before, seen = sys.getprofile(), _Seen()
            sys.setprofile(seen.watch())
            try:
                return program()
            finally:
                sys.setprofile(before)
                self.count += seen.count

        return counted


class _Seen:
    """Calls of one run of a program."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self) -> Callable[[FrameType, str, Any], None]:
        """Return what the interpreter calls at each call and return, millions of times."""
        depth = 0  # of frames that belong to tracing, 0 outside of it

        def see(frame: FrameType, event: str, _: Any) -> None:
            nonlocal depth
            if depth:
                if event == "call":
                    depth += 1
                elif event == "return":
                    depth -= 1
            elif event == "call":
                if _is_unlike_a_run(frame.f_code):
                    depth = 1
                else:
                    self._add(frame.f_code, handed_over=_is_handed_over(frame.f_code.co_name))
            elif event == "c_call":
                self._add(frame.f_code)

        return see

    def _add(self, code: CodeType, *, handed_over: bool = False) -> None:
        self.count += _CALLS_TO_HAND_OVER * handed_over
        self.count += not _is_watch(code.co_filename, code.co_name)


def _is_unlike_a_run(code: CodeType) -> bool:
    return code.co_name == "__subclasscheck__" or _is_of_tracing(code.co_filename)


@cache
def _is_of_tracing(path: str) -> bool:
    path = path.replace("\\", "/")
    return any(part in path for part in _OF_TRACING)


@cache
def _is_handed_over(name: str) -> bool:
    return name.endswith(_HANDED_OVER)


@cache
def _is_watch(path: str, name: str) -> bool:
    """Whether it is code of this file, or wraps the call of a module because hooks watch it."""
    return path == __file__ or (
        name == "inner" and path.replace("\\", "/").endswith("/nn/modules/module.py")
    )
