"""Which module calls an operator, in the forward and in the backward pass."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


class ModulePath:
    """Follows the calls of modules.

    Paths are those of ``network.named_modules()``. A module outside of the network is called by
    its class, and its children by their names below that.

    Args:
        network: The network whose paths are used; may be ``None``.
    """

    def __init__(self, network: torch.nn.Module | None) -> None:
        self._paths: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._owners: dict[int, str] = {}
        self._forward: dict[int, str] = {}
        self._stack: list[str] = [""]
        if network is not None:
            self._name(network, "")

    @contextmanager
    def followed(self) -> Generator[None]:
        """Follow the calls made in a ``with`` block."""
        enter = register_module_forward_pre_hook(self._enter)
        leave = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            enter.remove()
            leave.remove()

    def current(self) -> str:
        """Return the path of the module that calls the operator being dispatched.

        In the backward pass, that is the module whose forward pass recorded the autograd node
        being executed: both carry the same sequence number.
        """
        path = self._stack[-1]
        if not path and torch._C._current_graph_task_id() != -1:  # noqa: SLF001
            return self._path_of(torch._C._current_autograd_node())  # noqa: SLF001
        if torch.is_grad_enabled():  # the first call with a new number is the one that drew it
            self._forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, path)  # noqa: SLF001
        return path

    def _path_of(self, node: Any) -> str:
        variable = getattr(node, "variable", None)  # of a node that accumulates a gradient
        if variable is not None:
            return self._owners.get(id(variable), "")
        return self._forward.get(node._sequence_nr(), "")  # noqa: SLF001

    def _enter(self, module: torch.nn.Module, _: object) -> None:
        if module not in self._paths:
            self._name(module, type(module).__name__)
        self._stack.append(self._paths[module])

    def _leave(self, module: torch.nn.Module, _: object, __: object) -> None:
        self._stack.pop()

    def _name(self, root: torch.nn.Module, prefix: str) -> None:
        for name, module in root.named_modules(prefix=prefix):
            self._paths.setdefault(module, name)
            for parameter in module.parameters(recurse=False):
                self._owners.setdefault(id(parameter), name)
