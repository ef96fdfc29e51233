"""Record the operators of a program as PyTorch's dispatcher runs them, with their modules."""

import gc
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.tracing.calls import Call, tensors_in
from joulelab.tracing.gpu_choices import gpu_choices, kept_on_host, unfused_on_gpu
from joulelab.tracing.operators import Describer, Storage, Storages
from joulelab.tracing.program import Operator, Stage, within_region
from joulelab.tracing.repeated_calls import RepeatedCalls, unprofiled


class ModulePath:
    """Follows the calls of modules.

    Paths are those of ``network.named_modules()``. A module outside of the network is called by
    its class, and its children by their names below that.
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
        path = within_region(self._stack[-1])
        if not path and torch._C._current_graph_task_id() != -1:  # noqa: SLF001
            node: Any = torch._C._current_autograd_node()  # noqa: SLF001
            variable = getattr(node, "variable", None)  # of a node that accumulates a gradient
            if variable is not None:
                return self._owners.get(id(variable), "")
            return self._forward.get(node._sequence_nr(), "")  # noqa: SLF001
        if torch.is_grad_enabled():  # the first call with a new number is the one that drew it
            self._forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, path)  # noqa: SLF001
        return path

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


_COMPOSITE = DispatchKey.CompositeImplicitAutograd


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records kernels and the bytes alive after each; ``storages`` know parameters and inputs."""

    def __init__(self, storages: Storages, modules: ModulePath, describer: Describer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[Operator] = []
        self.live_b: list[float] = []
        self._storages = storages
        self._modules = modules
        self._describer = describer
        self._in_optimizer = False
        self._on_host: set[int] = set()
        self._calls_before = 0
        self._gradients: dict[int, Storage] = {}

    @property
    def gradient_b(self) -> int:
        """Bytes of the gradients that were counted."""
        return sum(storage.size_b for storage in self._gradients.values())

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record what is run in a ``with`` block."""
        with ExitStack() as stack:
            before = register_optimizer_step_pre_hook(self._enter_optimizer)
            stack.callback(before.remove)
            after = register_optimizer_step_post_hook(self._leave_optimizer)
            stack.callback(after.remove)
            stack.enter_context(self._modules.followed())
            for surroundings in self._surroundings():
                stack.enter_context(surroundings)
            stack.enter_context(self)
            yield

    def _surroundings(self) -> tuple[AbstractContextManager[object], ...]:
        return _no_garbage_collection(), gpu_choices()

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Take calls as they are: a compiler that must keep out is asked at each of them."""
        return False

    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        with unprofiled():
            return self._dispatched(func, args, kwargs or {})

    def _dispatched(
        self, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> object:
        if func.namespace == "prim":
            return func(*args, **kwargs)
        unfused = self._unfused(func, args)
        if unfused is not None:
            with self:
                return unfused(*args, **kwargs)
        if _is_composite(func):  # inference mode hands these over whole
            with self:
                return _decomposed(func, args, kwargs)
        return self._called(func, args, kwargs, self._modules.current())

    def _unfused(
        self, func: torch._ops.OpOverload, args: Sequence[Any]
    ) -> Callable[..., object] | None:
        return unfused_on_gpu(func, args)

    def _called(
        self,
        func: torch._ops.OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        module: str,
    ) -> object:
        result = _run(func, args, kwargs, module)
        self._record(Call(operator=func, args=args, kwargs=kwargs, result=result), module)
        return result

    def _record(self, call: Call, module: str) -> None:
        if call.name != "lift_fresh":  # its input holds a constant that the program makes
            for _, tensor in call.inputs:
                self._storages.of(tensor)  # first seen here, it was passed in
        for tensor in tensors_in(call.result):
            self._storages.of(tensor, "made")
        if call.launches_nothing or self._on_host.issuperset(map(id, call.written)):
            self._calls_before += 1
            return
        operator = self._describer.operator(call, module=module, stage=self._stage)
        self.operators.append(replace(operator, calls_before=self._calls_before))
        self._calls_before = 0
        self.live_b.append(float(self._storages.live_b))

    @property
    def _stage(self) -> Stage:
        if self._in_optimizer:
            return "optimizer"
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"  # noqa: SLF001

    def _enter_optimizer(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._in_optimizer = True
        self._on_host.update(map(id, kept_on_host(optimizer)))
        for group in optimizer.param_groups:
            self.count_gradients(group["params"])

    def _leave_optimizer(self, *_: object) -> None:
        self._in_optimizer = False
        self._on_host.clear()

    def count_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
        """Count the gradients that ``parameters`` hold at this moment."""
        gradients = (each.grad for each in parameters if each.grad is not None)
        for gradient in gradients:
            storage = self._storages.of(gradient)
            if storage.role == "made":
                self._gradients[id(storage)] = storage


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    """Keep tensors in reference cycles alive, lest it be chance when they are freed."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _is_composite(func: torch._ops.OpOverload) -> bool:
    """Whether eager PyTorch runs ``func`` as a sequence of other operators."""
    name = func.name()  # type: ignore[no-untyped-call]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
    return has_kernel(name, _COMPOSITE) and not has_kernel(name, DispatchKey.CPU)


def _decomposed(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> object:
    """Run ``func`` as the operators that eager PyTorch runs in its place."""
    if func is torch.ops.aten.linear.default and _folds_rows(*args, **kwargs):
        return _rows_folded(*args, **kwargs)
    return func._op_dk(_COMPOSITE, *args, **kwargs)  # noqa: SLF001


def _folds_rows(
    given: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> bool:
    """Whether a layer multiplies the rows of all batches at once, wherever they lie in memory.

    PyTorch does so for weights that learn (``should_fold``, LinearAlgebra.cpp), also where nothing
    learns. Their transpose is seen not to learn here, below autograd: it would be multiplied batch
    by batch, as in the output head of a language model, which reads the last tokens alone.
    """
    is_flattened_anyway = bias is not None and given.is_contiguous()
    return weight.requires_grad and given.dim() > 2 and not is_flattened_anyway


def _rows_folded(
    given: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    rows = given.reshape(-1, given.shape[-1]) @ weight.t()
    shape = (*given.shape[:-1], weight.shape[0])
    product: torch.Tensor = torch.ops.aten._unsafe_view(rows, shape)  # noqa: SLF001
    return product if bias is None else product.add_(bias)


_calls = RepeatedCalls()
"""Of all traces of this process: programs are traced again with little changed."""


def _run(
    func: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    module: str,
) -> object:
    where = f"module {module!r}" if module else "the program"
    try:
        return _calls.run(func, args, kwargs)
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        raise ConfigError(
            f"{func} in {where} depends on the values of its input, which fake tensors do not "
            "have. Give the network a fixed shape there, or build and trace it with real tensors."
        ) from error
    except UnsupportedOperatorException as error:
        raise ConfigError(
            f"{func} in {where} does not say which shapes it makes. Register a fake "
            "implementation (torch.library.register_fake), or trace it with real tensors."
        ) from error
