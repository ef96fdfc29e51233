"""The catalogue of GPUs against datasheets, clock lists and published studies."""

from itertools import pairwise
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.cost import PIPES
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.hardware import GPUS, spec_for
from joulelab.hardware.catalogue import Catalogue, clock_grid_mhz, figures_in, spec_of_boards
from joulelab.hardware.processor import Figure

KEYS = sorted(GPUS)


def test_the_catalogue_holds_the_gpus_of_the_studies():
    assert [
        *("a100_pcie", "a100_pcie_40gb", "a100_sxm", "a100_sxm_40gb", "a40", "b100", "b200"),
        *("h100_nvl", "h100_pcie", "h100_sxm", "h200_sxm", "jetson_orin_agx", "jetson_orin_nano"),
        *("jetson_thor", "l4", "l40s", "p100_sxm2", "quadro_rtx_6000", "quadro_rtx_8000"),
        *("rtx_3090", "rtx_4090", "rtx_6000_ada", "rtx_a4000", "rtx_pro_6000", "t4"),
        *("v100_pcie", "v100_sxm2"),
    ] == KEYS
    assert len({name for key in KEYS for name in GPUS[key].product_names}) >= len(KEYS)


def test_a_product_that_is_like_another_takes_over_what_its_file_leaves_out_and_says_so():
    own, other = GPUS["rtx_a4000"].figures, GPUS["a40"].figures

    assert own["voltage.ridge_mhz"].value == other["voltage.ridge_mhz"].value
    assert own["voltage.ridge_mhz"].status == "E"
    assert own["voltage.ridge_mhz"].source.startswith("as of the a40: ")
    assert own["power.sm_w_per_ghz"].value == pytest.approx(20 * 48 / 84)
    assert own["power.sm_w_per_ghz"].source.startswith("of the a40 by SM count: ")
    assert own["memory.bandwidth_b_per_s"].value == 448e9
    assert own["memory.bandwidth_b_per_s"].source.startswith("RTX A4000 datasheet")


def test_units_that_a_product_lacks_are_not_taken_over():
    assert set(GPUS["p100_sxm2"].power.pipe_w_per_ghz) == {"fp64", "fp32", "fp16"}


def test_a_calibrated_figure_does_not_replace_what_the_file_says_itself():
    own = GPUS["h100_pcie"].figures

    assert own["power.constant_w"].value == 48.0
    assert "calibrated.power.constant_w" not in own
    assert own["calibrated.power.busy_w_per_ghz"].value == 43.84
    assert own["power.sm_w_per_ghz"].source.startswith("of the h100_sxm by SM count")


def test_a_figure_without_a_source_is_refused():
    with pytest.raises(ConfigError, match="no source"):
        Figure(value=1.0, status="S", source="")


@pytest.mark.parametrize("key", KEYS)
def test_a_gpu_has_power_and_efficiency_for_exactly_its_own_pipes(key):
    spec = GPUS[key]

    assert set(spec.flop_per_clock_per_sm) <= set(PIPES)
    assert set(spec.power.pipe_w_per_ghz) == set(spec.flop_per_clock_per_sm)
    assert set(spec.timing.pipe_efficiency) == set(spec.flop_per_clock_per_sm)


@pytest.mark.parametrize(
    ("key", "count", "first", "last"),
    [
        ("v100_pcie", 167, 1380, 135),
        ("v100_sxm2", 187, 1530, 135),
        ("a100_pcie", 81, 1410, 210),
        ("a100_sxm", 81, 1410, 210),
        ("h100_nvl", 97, 1785, 345),
        ("h100_sxm", 110, 1980, 345),
        ("h200_sxm", 110, 1980, 345),
        ("a40", 103, 1740, 210),
    ],
)
def test_clock_lists_have_the_length_and_ends_of_the_real_ones(key, count, first, last):
    clocks = GPUS[key].sm_clocks_mhz

    assert (len(clocks), clocks[0], clocks[-1]) == (count, first, last)


@pytest.mark.parametrize(
    ("key", "count"), [("v100_pcie", 117), ("a100_sxm", 61), ("h100_nvl", 86), ("h200_sxm", 110)]
)
def test_study_ranges_have_the_published_number_of_clocks(key, count):
    assert len(GPUS[key].study_clocks_mhz) == count


def test_v100_clocks_alternate_in_steps_of_eight_and_seven():
    assert GPUS["v100_pcie"].study_clocks_mhz[:5] == (1380, 1372, 1365, 1357, 1350)
    assert GPUS["v100_pcie"].study_clocks_mhz[-2:] == (517, 510)


@pytest.mark.parametrize("key", KEYS)
def test_clocks_limits_and_temperatures_are_in_order(key):
    spec = GPUS[key]

    assert list(spec.sm_clocks_mhz) == sorted(set(spec.sm_clocks_mhz), reverse=True)
    assert list(spec.mem_clocks_mhz) == sorted(set(spec.mem_clocks_mhz), reverse=True)
    assert {spec.default_clock_mhz, spec.idle_clock_mhz} <= set(spec.sm_clocks_mhz)
    assert spec.power.idle_w < spec.power_limits_w[0] < spec.default_power_limit_w
    assert spec.thermal.max_operating_c < spec.thermal.slowdown_c < spec.thermal.shutdown_c


@pytest.mark.parametrize("key", KEYS)
def test_voltage_never_falls_with_the_clock_and_stays_within_the_prior(key):
    spec = GPUS[key]
    voltages = [spec.voltage.at(clock) for clock in reversed(spec.sm_clocks_mhz)]

    assert voltages == sorted(voltages)
    assert voltages[0] == 1.0
    assert 1.2 < spec.voltage.at(spec.default_clock_mhz) < 1.6


def test_a_device_is_matched_by_the_name_that_nvml_gives():
    spec = spec_for("NVIDIA H200")

    assert spec is not None
    assert spec.key == "h200_sxm"
    assert spec_for("NVIDIA GeForce GTX 480") is None


def test_boards_that_run_a_program_together_draw_the_power_of_each():
    one, pair = spec_of_boards("NVIDIA H200"), spec_of_boards("2 x NVIDIA H200")

    assert one is GPUS["h200_sxm"]
    assert pair.power.constant_w == 2 * one.power.constant_w
    assert pair.default_power_limit_w == 2 * one.default_power_limit_w
    assert pair.voltage == one.voltage
    assert spec_of_boards("2 x NVIDIA GeForce GTX 480") is None
    assert spec_of_boards("Maker x 2") is None


def test_a_pipe_that_the_gpu_lacks_is_refused_with_those_it_has():
    with pytest.raises(UnknownNameError, match="tensor_fp16"):
        GPUS["v100_pcie"].peak_flop_per_s("tensor_bf16")


@given(st.sampled_from([7.5, 15.0]), st.integers(0, 200), st.integers(60, 600))
def test_a_clock_grid_is_the_real_grid_cut_to_whole_megahertz(step_mhz, num_steps, min_steps):
    min_mhz = 15 * min_steps
    grid = clock_grid_mhz(min_mhz, min_mhz + num_steps * step_mhz, step_mhz)

    assert len(grid) == num_steps + 1
    assert grid[-1] == min_mhz
    steps = {above - below for above, below in pairwise(grid)}
    assert steps <= {floor(step_mhz), ceil(step_mhz)}


def test_a_data_file_that_lacks_a_figure_says_which():
    """It was a bare TypeError of the class that should have held it."""

    def read(key):
        return Figure(value=1.0, source=key)

    with pytest.raises(ConfigError, match=r"GPU 'mine' must hold every figure: .*'status'"):
        Catalogue("GPU", lambda: ["mine"], read, {})["mine"]


def test_a_negative_figure_is_refused_but_for_the_curvature_of_voltage():
    """Constant power below 0 became not a number in the logs of power models."""

    def figures(name, value):
        entry = {"value": value, "status": "E", "source": "a test"}
        return dict(figures_in({"power": {name: entry}}))

    assert figures("curvature_per_ghz2", -0.3)["power.curvature_per_ghz2"].value == -0.3
    with pytest.raises(ConfigError, match=r"power\.constant_w must not be negative, got -5"):
        figures("constant_w", -5.0)
