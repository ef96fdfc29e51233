"""Where a kernel's operations run, by its kind and the number format of its operands."""

import torch

from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError
from joulelab.estimator.tracing.calls import Call
from joulelab.estimator.tracing.kinds import MATRIX_KINDS

_MATRIX_PIPES: dict[torch.dtype, Pipe] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "tensor_fp16",
    torch.bfloat16: "tensor_bf16",
    torch.float8_e4m3fn: "tensor_fp8",
    torch.float8_e5m2: "tensor_fp8",
    torch.int8: "tensor_int8",
    torch.uint8: "tensor_int8",
}
_DOUBLE = (torch.float64, torch.complex128)


def pipe_of(call: Call, *, tf32_matmul: bool, tf32_conv: bool) -> Pipe:
    """Return the pipe on which ``call`` runs.

    Products take that of their operands. Everything else computes in single precision,
    whatever it stores, unless a double is among its tensors; integer work is put there too. TF32 is
    not for attention: in single precision its kernel keeps that whatever is allowed
    (``DefaultGemmType``, aten/src/ATen/native/transformers/cuda/mem_eff_attention).

    Raises:
        ConfigError: If no matrix pipe multiplies the operands' type.
    """
    if call.kind not in MATRIX_KINDS:
        tensors = (*(tensor for _, tensor in call.inputs), *call.written)
        return "fp64" if any(tensor.dtype in _DOUBLE for tensor in tensors) else "fp32"
    dtype = call.inputs[0][1].dtype
    allowed = {"conv": tf32_conv, "gemm": tf32_matmul}
    if dtype == torch.float32 and allowed.get(call.kind, False):
        return "tensor_tf32"
    if dtype not in _MATRIX_PIPES:
        raise ConfigError(
            f"{call.operator} multiplies {dtype} (counted are "
            f"{', '.join(str(known) for known in _MATRIX_PIPES)})"
        )
    return _MATRIX_PIPES[dtype]
