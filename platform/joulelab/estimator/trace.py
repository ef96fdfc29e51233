"""Trace any PyTorch program to the kernels that it launches.

The dispatcher shows every operator that eager PyTorch would run. Under :func:`fake_tensors` the
program's tensors have a shape and a type but no memory, so a network of any size is traced in
about a second::

    with fake_tensors():
        network = build_network()
        kernels = trace(lambda: network(torch.zeros(1, 512, dtype=torch.long)))

Fake tensors live on the CPU device: there attention stays one kernel, where a trace for a fake
GPU would break it into products and a softmax. The sequence of operators is otherwise that of a
GPU, one launch each, although a few of them launch two kernels there.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.core.cost import KernelCost
from joulelab.estimator.attention import is_unfused_on_gpu, unfused_attention
from joulelab.estimator.calls import Call
from joulelab.estimator.formulas import flop
from joulelab.estimator.pipes import pipe_of
from joulelab.estimator.traffic import dram_b


@contextmanager
def fake_tensors() -> Generator[None]:
    """Give tensors made in a ``with`` block no memory, and keep no gradients."""
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one opaque operator, without a formula
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)


def trace(
    program: Callable[[], object], *, tf32_matmul: bool = False, tf32_conv: bool = True
) -> tuple[KernelCost, ...]:
    """Run ``program`` and return its kernels in the order of their launches.

    Args:
        program: What to run, on fake tensors or on real ones.
        tf32_matmul: Single-precision products and attention use TF32; off by default in PyTorch.
        tf32_conv: Single-precision convolutions use TF32; on by default in PyTorch.

    Raises:
        ConfigError: If the program calls an operator of matrix kind that has no FLOP formula.
    """
    recorder = _Recorder(tf32_matmul=tf32_matmul, tf32_conv=tf32_conv)
    with torch.no_grad(), recorder:
        program()
    return tuple(recorder.kernels)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, *, tf32_matmul: bool, tf32_conv: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels: list[KernelCost] = []
        self._tf32_matmul = tf32_matmul
        self._tf32_conv = tf32_conv

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
        with self:
            if is_unfused_on_gpu(func, args):
                return unfused_attention(*args, **kwargs)
            result = func.decompose(*args, **kwargs)  # inference mode hands composites over whole
        if result is not NotImplemented:
            return result
        call = Call(operator=func, args=args, kwargs=kwargs, result=func(*args, **kwargs))
        if not call.launches_nothing:
            self.kernels.append(self._cost(call))
        return call.result

    def _cost(self, call: Call) -> KernelCost:
        return KernelCost(
            name=call.kind,
            pipe=pipe_of(call, tf32_matmul=self._tf32_matmul, tf32_conv=self._tf32_conv),
            flop=flop(call),
            dram_b=float(dram_b(call)),
        )
