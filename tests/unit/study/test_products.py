"""Which GPUs are of one product, and which one a user means."""

import pytest

from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity
from joulelab.errors import ConfigError
from joulelab.study.gpu import StudyGpu
from joulelab.study.products import by_product, of_product, require_one_product

NAMES = (
    "Tesla V100-SXM2-32GB",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA H200",
    "NVIDIA GH200 480GB",
    "NVIDIA H200",
)


def gpu(index, name):
    uuid = f"GPU-{index}"
    return StudyGpu(
        address=DeviceAddress(backend="nvml", uuid=uuid),
        identity=DeviceIdentity(uuid=uuid, name=name, backend="nvml", driver_version="580.0"),
        capabilities=Capabilities(
            sm_clocks_mhz=(), mem_clocks_mhz=(), power_limits_w=None, default_power_limit_w=None,
            has_energy_counter=True, has_power_samples=True, has_memory_power=False,
            has_activity=False, can_set_clocks=None,
        ),
        hostname="node-1",
    )  # fmt: skip


GPUS = [gpu(index, name) for index, name in enumerate(NAMES)]


def uuids(gpus):
    return [each.uuid for each in gpus]


def test_gpus_are_told_apart_by_the_name_of_their_product_in_the_order_they_came():
    found = by_product(GPUS)

    assert list(found) == list(dict.fromkeys(NAMES))
    assert uuids(found["NVIDIA H200"]) == ["GPU-2", "GPU-4"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"]),
        ("v100", ["GPU-0"]),
        ("A100-SXM4", ["GPU-1"]),
        ("sxm2", ["GPU-0"]),
        ("a100_sxm", ["GPU-1"]),
        ("h200_sx", ["GPU-2", "GPU-4"]),
        ("H200", ["GPU-2", "GPU-3", "GPU-4"]),
        ("nvidia h200", ["GPU-2", "GPU-4"]),
        ("nvidia", ["GPU-1", "GPU-2", "GPU-3", "GPU-4"]),
    ],
)
def test_a_part_of_a_name_or_key_means_every_product_that_has_it_and_a_whole_one_that_alone(
    asked, expected
):
    assert uuids(of_product(GPUS, asked)) == expected


@pytest.mark.parametrize("asked", ["b200", "", "  "])
def test_a_product_that_is_not_there_is_refused_with_those_that_are(asked):
    with pytest.raises(ConfigError, match=r"1 Tesla V100-SXM2-32GB \(v100_sxm2\), .*2 NVIDIA H200"):
        of_product(GPUS, asked)


def test_several_products_are_refused_where_one_is_needed_and_how_to_choose_is_told():
    require_one_product(GPUS[2::2])

    with pytest.raises(ConfigError, match=r"2 NVIDIA H200.*--gpu-product"):
        require_one_product(GPUS)
