"""GPUs with their calibrated figures, which are put together once."""

from dataclasses import replace

import pytest

from joulelab.devices.simulated.load import calibrated_gpu
from joulelab.hardware import GPUS
from joulelab.hardware.processors import processor_of
from joulelab.hardware.scalars import calibrated


@pytest.mark.parametrize("key", ["h200_sxm", "a100_sxm"])
def test_it_is_what_its_data_file_makes_of_it_and_the_same_one_each_time(key):
    spec = GPUS[key]

    assert calibrated_gpu(spec) == calibrated(processor_of(spec))
    assert calibrated_gpu(spec) is calibrated_gpu(spec)


def test_a_gpu_that_differs_from_another_of_its_key_has_figures_of_its_own():
    spec = GPUS["h200_sxm"]
    plain = replace(spec, figures={})

    assert calibrated_gpu(plain) == processor_of(plain)
    assert calibrated_gpu(plain) != calibrated_gpu(spec)
