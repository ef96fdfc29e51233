import pytest
import torch

from joulelab.errors import DeviceError, DeviceNotFoundError
from joulelab.workloads import accelerator

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")


@without_gpu
def test_a_process_pinned_to_a_gpu_never_falls_back_to_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a1b")

    with pytest.raises(DeviceNotFoundError, match="pinned to GPU GPU-5a1b"):
        accelerator.select_device()


@without_gpu
@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_a_process_from_which_gpus_are_hidden_uses_the_cpu(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)

    assert accelerator.select_device() == torch.device("cpu")


def test_running_out_of_memory_is_an_error_of_the_device():
    with (
        pytest.raises(DeviceError, match="gemm ran out of device memory"),
        accelerator.memory_errors("gemm"),
    ):
        raise torch.OutOfMemoryError("tried to allocate 1 TB")


@pytest.mark.parametrize(("precision", "inside"), [("tf32", "high"), ("fp32", "highest")])
def test_tf32_is_allowed_only_while_computing_in_it(precision, inside):
    before = torch.get_float32_matmul_precision()

    with accelerator.computing(precision):
        assert torch.get_float32_matmul_precision() == inside
        assert torch.is_inference_mode_enabled()

    assert torch.get_float32_matmul_precision() == before
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("precision", "inside"), [("tf32", True), ("fp16", True), ("int8", True), ("fp32", False)]
)
def test_convolutions_in_single_precision_may_use_tf32_unless_fp32_is_asked_for(precision, inside):
    before = torch.backends.cudnn.allow_tf32

    with accelerator.computing(precision):
        allowed = torch.backends.cudnn.allow_tf32

    assert before, "PyTorch's default"
    assert allowed == inside
    assert torch.backends.cudnn.allow_tf32 == before


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"])
def test_operands_are_spread_like_normal_numbers_unless_zeros_are_asked_for(precision):
    cpu = torch.device("cpu")
    with accelerator.seeded(0, cpu):
        drawn = accelerator.operand((4000,), precision, "random", "cpu").double()
    zeros = accelerator.operand((4000,), precision, "zeros", "cpu").double()

    assert drawn.mean().item() == pytest.approx(0, abs=0.1)
    assert drawn.std().item() == pytest.approx(1, abs=0.1)
    assert not zeros.any()
