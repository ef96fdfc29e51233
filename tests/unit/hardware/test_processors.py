"""Every processor of the catalogue against datasheets, physics and errors that others print."""

from itertools import pairwise

import pytest

from joulelab.core.cost import PIPES
from joulelab.errors import UnknownNameError
from joulelab.hardware import GPUS
from joulelab.hardware.places import ALIASES
from joulelab.hardware.processors import PROCESSORS

KEYS = list(PROCESSORS)
FAMILY = {key: PROCESSORS[key].family for key in KEYS}
CPUS, TPUS, KPUS = ([key for key in KEYS if FAMILY[key] == name] for name in ("cpu", "tpu", "kpu"))
PRINTED = [
    (key, name.partition(".")[2])
    for key in KEYS
    for name in PROCESSORS[key].figures
    if name.startswith("datasheet.")
]
# Joules of one operation, arithmetic alone: Horowitz (ISSCC 2014) at 0.45 for 16 nm; 7 nm: TPUv4i.
ARITHMETIC_J = {
    16: {"tensor_int8": 0.5 * 0.45 * (0.2 + 0.1) * 1e-12, "fp32": 0.5 * 0.45 * 4.6e-12},
    7: {"tensor_int8": 0.5 * (0.07 + 0.03) * 1e-12, "tensor_bf16": 0.5 * 0.59e-12},
}


def _waiting_w(processor, clock_mhz=None):
    clock_mhz = clock_mhz or processor.default_clock_mhz
    clocked_w = clock_mhz / 1000 * processor.power.clock_w_per_ghz
    return processor.power.constant_w + processor.voltage.at(clock_mhz) ** 2 * clocked_w


def _busy_w(processor, clock_mhz=None):
    clock_mhz = clock_mhz or processor.default_clock_mhz
    busy_w = clock_mhz / 1000 * processor.power.busy_w_per_ghz
    return _waiting_w(processor, clock_mhz) + processor.voltage.at(clock_mhz) ** 2 * busy_w


def _computing_w(processor, pipe):
    per_s_w = processor.power.flop_j[pipe] * processor.peak_flop_per_s(pipe)
    return _busy_w(processor) + processor.voltage.at(processor.default_clock_mhz) ** 2 * per_s_w


def test_the_catalogue_holds_all_four_families():
    assert {
        *("jetson_orin_agx_cpu", "xeon_8380", "xeon_8480_plus", "xeon_8490h", "xeon_8592_plus"),
        *("xeon_6980p", "epyc_9654", "epyc_9754", "epyc_9755", "epyc_9965", "i7_12700k"),
        *("altra_max_m128_30", "ampereone_a192_32x", "i9_10940x"),
    } == set(CPUS)
    assert {"tpu_v3", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "coral_edge_tpu"} == set(TPUS)
    assert {"kpu_t64", "kpu_t256", "kpu_t768"} == set(KPUS)
    assert [key for key in KEYS if FAMILY[key] == "gpu"] == list(GPUS)
    assert len(KEYS) == len(set(KEYS)) == len(PROCESSORS)


@pytest.mark.parametrize("key", KEYS)
def test_every_figure_names_its_source(key):
    processor = PROCESSORS[key]

    assert processor.key == key
    assert processor.figures
    for name, figure in processor.figures.items():
        assert len(figure.source) > 5, name
        assert figure.status in "SFDE", name
        recollected = "recollection" in figure.source or "unconfirmed" in figure.source
        assert figure.status == "E" or not recollected, name


@pytest.mark.parametrize(("key", "pipe"), PRINTED)
def test_derived_peaks_match_the_datasheet_within_two_percent(key, pipe):
    processor = PROCESSORS[key]
    printed_tflop_per_s, clock_mhz = processor.figures[f"datasheet.{pipe}"].value

    derived = processor.peak_flop_per_s(pipe, clock_mhz)

    assert derived / 1e12 == pytest.approx(printed_tflop_per_s, rel=0.02)


@pytest.mark.parametrize("key", KEYS)
def test_every_processor_has_a_peak_to_check(key):
    assert key in {printed for printed, _ in PRINTED}


@pytest.mark.parametrize("key", KEYS)
def test_energies_and_efficiencies_cover_exactly_the_pipes_it_has(key):
    processor = PROCESSORS[key]
    pipes = set(processor.flop_per_clock)

    assert pipes <= set(PIPES)
    assert set(processor.power.flop_j) == set(processor.timing.pipe_efficiency) == pipes
    assert all(energy_j > 0 for energy_j in processor.power.flop_j.values())
    assert all(0 < share <= 1 for share in processor.timing.pipe_efficiency.values())
    assert 0 < processor.timing.memory_efficiency <= 1
    assert 0 < processor.power.zeros_factor < 1


@pytest.mark.parametrize("key", KEYS)
def test_memory_levels_go_from_the_fastest_to_the_main_memory(key):
    levels = PROCESSORS[key].levels

    assert len(levels) >= 2
    assert levels[-1].name == "DRAM"
    assert not levels[-1].on_core_clock
    assert all(near.on_core_clock for near in levels[:-1])
    assert all(near.bandwidth_b_per_s > far.bandwidth_b_per_s for near, far in pairwise(levels))
    assert all(level.size_b > 0 for level in levels)
    assert levels[-1].size_b > max(level.size_b for level in levels[:-1])


@pytest.mark.parametrize("key", KEYS)
def test_a_byte_costs_more_the_farther_it_is_away(key):
    *near, last_cache, memory = PROCESSORS[key].levels
    nearest_j = [level.byte_j for level in near]

    assert nearest_j == sorted(nearest_j)
    assert all(byte_j > 0 for byte_j in nearest_j)
    assert 0 <= last_cache.byte_j < memory.byte_j
    assert 2e-11 <= memory.byte_j <= 2e-10


@pytest.mark.parametrize("key", KEYS)
def test_clocks_and_power_limits_are_in_order(key):
    processor = PROCESSORS[key]
    low_mhz, default_mhz, high_mhz = processor.clocks_mhz
    low_w, high_w = processor.power_limits_w

    assert 0 < low_mhz < default_mhz <= high_mhz
    assert 0 < low_w <= processor.default_power_limit_w <= high_w
    assert processor.power.idle_w < low_w
    assert _busy_w(processor, low_mhz) < low_w


@pytest.mark.parametrize("key", KEYS)
def test_voltage_starts_at_its_minimum_and_never_falls(key):
    processor = PROCESSORS[key]
    low_mhz, _, high_mhz = processor.clocks_mhz
    steps = [low_mhz + (high_mhz - low_mhz) * i / 50 for i in range(51)]
    voltages = [processor.voltage.at(clock_mhz) for clock_mhz in steps]

    assert voltages[0] == 1.0
    assert voltages == sorted(voltages)


@pytest.mark.parametrize("key", KEYS)
def test_power_grows_from_idle_over_waiting_and_busy_to_computing(key):
    processor = PROCESSORS[key]

    assert processor.power.idle_w < _waiting_w(processor) < _busy_w(processor)
    for pipe in processor.flop_per_clock:
        assert _busy_w(processor) < _computing_w(processor, pipe)


@pytest.mark.parametrize("key", CPUS + TPUS)
def test_every_pipe_at_its_peak_stays_near_the_power_limit(key):
    processor = PROCESSORS[key]

    for pipe in processor.flop_per_clock:
        assert _computing_w(processor, pipe) <= 1.15 * processor.default_power_limit_w


@pytest.mark.parametrize(
    ("key", "min_w", "mean_w", "max_w"), [("tpu_v3", 123, 220, 262), ("tpu_v4", 90, 170, 192)]
)
def test_a_tpu_spans_the_measured_range_of_its_kind(key, min_w, mean_w, max_w):
    processor = PROCESSORS[key]
    memory, efficiency = processor.memory, processor.timing.memory_efficiency
    stream_w = memory.byte_j * memory.bandwidth_b_per_s * efficiency

    assert _waiting_w(processor) == pytest.approx(min_w, rel=0.05)
    assert mean_w <= _computing_w(processor, "tensor_bf16") + stream_w
    assert _computing_w(processor, "tensor_bf16") <= max_w
    assert processor.default_power_limit_w == max_w


@pytest.mark.parametrize(
    ("key", "gflop_per_s", "wall_w"),
    [("altra_max_m128_30", 1652.4, 440), ("ampereone_a192_32x", 3026.9, 692)],
)
def test_a_processor_draws_less_than_the_computer_around_it(key, gflop_per_s, wall_w):
    """Linpack in double precision, power at the wall (geerlingguy/top500-benchmark)."""
    processor = PROCESSORS[key]
    squared_volt = processor.voltage.at(processor.default_clock_mhz) ** 2

    power_w = _busy_w(processor) + squared_volt * processor.power.flop_j["fp64"] * gflop_per_s * 1e9

    reached = processor.timing.pipe_efficiency["fp64"] * processor.peak_flop_per_s("fp64")
    assert reached == pytest.approx(gflop_per_s * 1e9, rel=0.02)
    assert 0.3 * wall_w < power_w < wall_w


@pytest.mark.parametrize("key", KPUS)
def test_a_projected_operation_costs_no_less_than_its_arithmetic(key):
    processor = PROCESSORS[key]

    for pipe, arithmetic_j in ARITHMETIC_J[int(processor.node_nm)].items():
        assert processor.power.flop_j[pipe] > arithmetic_j


@pytest.mark.parametrize("key", KEYS)
def test_only_silicon_that_nobody_has_is_called_projected(key):
    processor = PROCESSORS[key]

    assert (processor.tier == "D") == (processor.family == "kpu")
    assert (processor.tier == "A") == (key == "h200_sxm")


@pytest.mark.parametrize("key", KEYS)
def test_launches_take_longest_from_eager_python(key):
    timing = PROCESSORS[key].timing

    assert 0 < timing.graph_launch_s < timing.launch_s("a kind that is not listed")
    assert timing.kernel_overhead_s > 0


def test_the_fitted_power_of_the_i7_comes_back():
    processor = PROCESSORS["i7_12700k"]
    squared_volt = processor.voltage.at(4700) ** 2

    assert _busy_w(processor) == pytest.approx(92.3, rel=0.01)
    assert processor.power.flop_j["fp32"] * squared_volt == pytest.approx(78.6e-12, rel=0.01)
    byte_j = processor.memory.byte_j + squared_volt * processor.last_cache.byte_j
    assert byte_j == pytest.approx(25e-12, rel=0.01)


@pytest.mark.parametrize(
    ("key", "pipe", "clock_mhz", "tflop_per_s"),
    [
        ("h100_sxm", "tensor_fp16", 1830, 989.4),  # often printed with sparsity: 1979
        ("h200_sxm", "tensor_bf16", 1830, 989.4),
        ("l4", "tensor_fp16", 2040, 121.0),  # 242 with sparsity
        ("xeon_8490h", "fp32", 1900, 7.30),  # not 2.8
        ("xeon_8490h", "tensor_bf16", 1900, 116.7),  # not 44
        ("xeon_8480_plus", "tensor_int8", 2000, 229.4),
        ("epyc_9654", "fp32", 2400, 7.37),  # not 1.84
        ("epyc_9755", "fp32", 2700, 22.1),
        ("jetson_orin_agx", "tensor_int8", 1300, 85.2),  # 170 with sparsity, not 42.6
        ("jetson_orin_agx_cpu", "fp32", 2200, 0.422),
        ("v100_sxm2", "tensor_fp16", 1530, 125.0),
        ("t4", "tensor_fp16", 1590, 65.0),
        ("tpu_v4", "tensor_bf16", 1050, 275.0),  # all eight arrays
        ("tpu_v5p", "tensor_bf16", 1750, 459.0),
    ],
)
def test_peaks_that_other_catalogues_get_wrong(key, pipe, clock_mhz, tflop_per_s):
    derived = PROCESSORS[key].peak_flop_per_s(pipe, clock_mhz)

    assert derived == pytest.approx(tflop_per_s * 1e12, rel=0.01)


@pytest.mark.parametrize(
    ("key", "channels", "transfers_per_s"),
    [
        ("xeon_8380", 8, 3200e6),
        ("xeon_8490h", 8, 4800e6),
        ("xeon_8592_plus", 8, 5600e6),  # not DDR5-4800
        ("xeon_6980p", 12, 6400e6),
        ("epyc_9654", 12, 4800e6),
        ("epyc_9755", 12, 6000e6),
        ("altra_max_m128_30", 8, 3200e6),  # not 409.6 GB/s
        ("ampereone_a192_32x", 8, 5200e6),  # not 460.8 GB/s
    ],
)
def test_memory_bandwidth_is_that_of_its_channels(key, channels, transfers_per_s):
    assert PROCESSORS[key].memory.bandwidth_b_per_s == channels * transfers_per_s * 8


def test_other_errors_of_catalogues_are_not_repeated():
    assert PROCESSORS["a100"].flop_per_clock["fp32"] == 108 * 2 * 64  # 64 cores per SM
    assert PROCESSORS["xeon_8490h"].architecture == "Sapphire Rapids"
    assert PROCESSORS["epyc_turin"].tier == "C"  # it ships
    assert PROCESSORS["l4"].memory.bandwidth_b_per_s == 300e9  # not 3350
    assert PROCESSORS["a100"].node_nm == 7
    assert PROCESSORS["h100"].memory.bandwidth_b_per_s == 3.35e12


@pytest.mark.parametrize(("alias", "key"), ALIASES.items())
def test_an_alias_finds_its_processor(alias, key):
    assert alias in PROCESSORS
    assert alias not in KEYS
    assert PROCESSORS[alias] is PROCESSORS[key]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("h1000", "h100"), ("h200sxm", "h200_sxm"), ("epyc_9645", "epyc_9654"), ("tpuv4", "tpu_v4")],
)
def test_an_unknown_device_is_named_with_its_closest(wrong, meant):
    assert wrong not in PROCESSORS
    with pytest.raises(UnknownNameError, match=f"'{meant}'"):
        PROCESSORS[wrong]
