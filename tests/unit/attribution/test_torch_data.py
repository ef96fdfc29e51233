"""Data of tensors, kept and made again."""

import pytest
import torch

from joulelab.attribution.torch_data import filled, sample_of
from joulelab.tracing.layouts import extent

LARGE = (1 << 22) + 5


def again(tensor):
    size = extent(tensor.shape, tensor.stride())
    return filled(sample_of(tensor), size, tensor.dtype, "cpu").as_strided(
        tensor.shape, tensor.stride()
    )


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[1.5, float("-inf")], [float("nan"), -0.0]]),
        torch.arange(12).reshape(3, 4).T,
        torch.arange(4.0).expand(3, 4),
        torch.tensor(7, dtype=torch.int32),
        torch.tensor([True, False, True]),
        torch.randn(5, dtype=torch.complex64),
        torch.randn(64).to(torch.float8_e4m3fn),
        torch.empty(0, 3),
    ],
    ids=["special", "transposed", "repeated", "number", "bool", "complex", "float8", "empty"],
)
def test_small_tensors_come_back_bit_by_bit(tensor):
    found = again(tensor)

    assert found.dtype == tensor.dtype
    assert found.stride() == tensor.stride()
    assert found.flatten().view(torch.uint8).tolist() == tensor.flatten().view(torch.uint8).tolist()


def test_a_view_keeps_what_it_sees_and_not_what_lies_before():
    view = torch.arange(100.0)[40:60:2]

    assert torch.equal(again(view), view)


def test_each_section_of_a_large_tensor_keeps_its_own_values():
    """The last rows of a padded batch hold nothing."""
    tensor = (torch.arange(LARGE) * 8 // LARGE).to(torch.int8)
    found = again(tensor)

    assert found.shape == tensor.shape
    assert (found == tensor).float().mean() > 0.99
    assert sample_of(tensor).numel() <= 1 << 21


@pytest.mark.parametrize("num_rows", [4096, 512])
def test_a_mask_keeps_its_zeros_and_its_edges(num_rows):
    """Masks of a batch begin where sections do; their first rows alone are nearly all zeros."""
    masks = torch.ones(num_rows, 512).tril().repeat((1 << 16) // num_rows, 1).flatten()
    found = again(masks)

    assert (found == 0).sum() == pytest.approx((masks == 0).sum(), rel=0.1)
    edges = [int((each[1:] != each[:-1]).sum()) for each in (found, masks)]
    assert edges[0] == pytest.approx(edges[1], rel=0.2)  # 64 samples of an eighth of the rows
