"""Describe one operator call as an :class:`~joulelab.estimator.program.Operator`."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import torch

from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError
from joulelab.estimator.graph.layout import contiguous_share
from joulelab.estimator.graph.values import Storages
from joulelab.estimator.program import MatrixShape, Operator, Stage
from joulelab.estimator.tracing.calls import Call
from joulelab.estimator.tracing.formulas import flop
from joulelab.estimator.tracing.kinds import MATRIX_KINDS
from joulelab.estimator.tracing.pipes import pipe_of
from joulelab.estimator.tracing.shapes import matrix_shape
from joulelab.estimator.tracing.traffic import Access, moved_b, traffic
from joulelab.estimator.tracing.waits import waits_of


class Describer:
    """Describes calls in the order in which they are made.

    Args:
        storages: Where the values live that the calls read and write.
        tf32_matmul: Single-precision products use TF32.
        tf32_conv: Single-precision convolutions use TF32.

    Attributes:
        uncounted: Why matrix operators could not be counted, with the number of their calls.
    """

    def __init__(self, storages: Storages, *, tf32_matmul: bool, tf32_conv: bool) -> None:
        self.uncounted: Counter[str] = Counter()
        self._storages = storages
        self._tf32_matmul = tf32_matmul
        self._tf32_conv = tf32_conv

    def operator(self, call: Call, *, module: str, stage: Stage) -> Operator:
        """Return ``call`` as an operator; its tensors hold new values afterwards."""
        moved = traffic(call)
        weights, activations = self._parted(moved.read)
        inputs = self._values_read(activations, moved.written)
        outputs = self._values_written(moved.written)
        shape = matrix_shape(call) if call.kind in MATRIX_KINDS else None
        pipe, operations = self._work(call, shape) or ("fp32", None)
        return Operator(
            name=call.name,
            kind=call.kind,
            module=module,
            dtype=_dtype_of(call),
            pipe=pipe,
            flop=operations or 0.0,
            read_b=float(moved_b(activations)),
            weight_b=float(moved_b(weights)),
            written_b=float(moved_b(moved.written)),
            shape=shape,
            inputs=tuple(inputs),
            inputs_b=tuple(inputs.values()),
            outputs=tuple(outputs),
            outputs_b=tuple(outputs.values()),
            steps=waits_of(call),
            contiguous=contiguous_share(call, moved),
            stage=stage,
            has_formula=operations is not None,
        )

    def _work(self, call: Call, shape: MatrixShape | None) -> tuple[Pipe, float] | None:
        try:
            return (
                pipe_of(call, tf32_matmul=self._tf32_matmul, tf32_conv=self._tf32_conv),
                flop(call, shape),
            )
        except ConfigError as reason:
            self.uncounted[str(reason)] += 1
            return None

    def _parted(self, read: Sequence[Access]) -> tuple[list[Access], list[Access]]:
        """Return what is read of parameters, and what of other values."""
        weights: list[Access] = []
        activations: list[Access] = []
        for access in read:
            is_weight = self._storages.of(access.tensor).role == "parameter"
            (weights if is_weight else activations).append(access)
        return weights, activations

    def _values_read(self, read: Sequence[Access], written: Sequence[Access]) -> dict[int, float]:
        """Return the values read, and those of which a write leaves something, with their bytes."""
        values: dict[int, float] = {}
        for tensor, size_b in read:
            value = self._storages.of(tensor).value
            values[value] = values.get(value, 0.0) + size_b
        for tensor, size_b in written:
            storage = self._storages.of(tensor)
            if size_b < storage.size_b and storage.is_written and storage.role != "parameter":
                values.setdefault(storage.value, 0.0)
        return values

    def _values_written(self, written: Sequence[Access]) -> dict[int, float]:
        sizes_b: dict[int, float] = {}
        storages = {}
        for tensor, size_b in written:
            storage = self._storages.of(tensor)
            if size_b:
                storages[id(storage)] = storage
                sizes_b[id(storage)] = sizes_b.get(id(storage), 0.0) + size_b
        return {self._storages.write(each): sizes_b[key] for key, each in storages.items()}


def _dtype_of(call: Call) -> str:
    tensors = [tensor for _, tensor in call.inputs] or list(call.written)
    floating = (tensor for tensor in tensors if tensor.dtype.is_floating_point)
    return _dtype_name(next(floating, tensors[0]).dtype)


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
