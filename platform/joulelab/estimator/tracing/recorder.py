"""Record the operators of a program as PyTorch's dispatcher runs them."""

import gc
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.graph.values import Storage, Storages
from joulelab.estimator.program import Operator, Stage
from joulelab.estimator.tracing.attention import unfused_on_gpu
from joulelab.estimator.tracing.calls import Call, tensors_in
from joulelab.estimator.tracing.gpu_choices import gpu_choices
from joulelab.estimator.tracing.modules import ModulePath
from joulelab.estimator.tracing.operators import Describer
from joulelab.estimator.tracing.repeated_calls import RepeatedCalls

_COMPOSITE = DispatchKey.CompositeImplicitAutograd


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every kernel that is launched in a ``with recorder.recording():`` block.

    Args:
        storages: Where values live; parameters and inputs are declared there beforehand.
        modules: Which module is being called.
        describer: Counts what a call costs.

    Attributes:
        operators: In the order of their launches.
        live_b: Bytes alive after each of them.
    """

    def __init__(self, storages: Storages, modules: ModulePath, describer: Describer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[Operator] = []
        self.live_b: list[float] = []
        self._storages = storages
        self._modules = modules
        self._describer = describer
        self._calls = RepeatedCalls()
        self._in_optimizer = False
        self._gradients: dict[int, Storage] = {}

    @property
    def gradient_b(self) -> int:
        """Bytes of the gradients that were counted."""
        return sum(storage.size_b for storage in self._gradients.values())

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record what is run in a ``with`` block."""
        with ExitStack() as stack:
            stack.enter_context(_no_garbage_collection())
            before = register_optimizer_step_pre_hook(self._enter_optimizer)
            stack.callback(before.remove)
            after = register_optimizer_step_post_hook(self._leave_optimizer)
            stack.callback(after.remove)
            stack.enter_context(self._modules.followed())
            stack.enter_context(gpu_choices())
            stack.enter_context(self)
            yield

    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        unfused = unfused_on_gpu(func, args)
        if unfused is not None:
            with self:
                return unfused(*args, **kwargs)
        if _is_composite(func):  # inference mode hands these over whole
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)  # noqa: SLF001
        module = self._modules.current()
        result = _run(self._calls, func, args, kwargs, module)
        self._record(Call(operator=func, args=args, kwargs=kwargs, result=result), module)
        return result

    def _record(self, call: Call, module: str) -> None:
        if call.name != "lift_fresh":  # its input holds a constant that the program makes
            for _, tensor in call.inputs:
                self._storages.of(tensor)  # first seen here, it was passed in
        for tensor in tensors_in(call.result):
            self._storages.of(tensor, "made")
        if not call.launches_nothing:
            self.operators.append(self._describer.operator(call, module=module, stage=self._stage))
            self.live_b.append(float(self._storages.live_b))

    @property
    def _stage(self) -> Stage:
        if self._in_optimizer:
            return "optimizer"
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"  # noqa: SLF001

    def _enter_optimizer(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._in_optimizer = True
        for group in optimizer.param_groups:
            self.count_gradients(group["params"])

    def _leave_optimizer(self, *_: object) -> None:
        self._in_optimizer = False

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


def _run(
    calls: RepeatedCalls,
    func: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    module: str,
) -> object:
    where = f"module {module!r}" if module else "the program"
    try:
        return calls.run(func, args, kwargs)
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
