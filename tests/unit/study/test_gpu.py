"""Which GPUs are of one product, and which one a user means."""

import pytest
from alone import lent_elsewhere
from fake_gpu import FOREIGN_PID
from simulated_lab import gemm, typical

import joulelab
from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import DriverStore, Fault, fleet
from joulelab.errors import ConfigError
from joulelab.study.budget import Budget
from joulelab.study.gpu import StudyGpu, by_product, grouped, of_product, require_one_product
from joulelab.tracking.store import ResultStore
from joulelab.tracking.vocabulary import metrics, tags

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


AT_810 = OperatingPoint(sm_clock_mhz=810)
UUIDS = ("SIM-h200_sxm-0", "SIM-h200_sxm-1")


@pytest.fixture
def states(tmp_path):
    """What the drivers of two GPUs keep, which are there before the lab is."""
    store = DriverStore(str(tmp_path / "driver"))
    fleet("h200_sxm", 2, str(tmp_path / "driver"))
    return [store.state(uuid) for uuid in UUIDS]


def on_two(make_lab, point=None, **changes):
    lab = make_lab(gpus_per_trial=2, **changes)
    return joulelab.measure("gemm", point=point, lab=lab)


def test_energies_of_boards_are_kept_apart_and_added_up(make_lab, states):
    measurement = on_two(make_lab, observe_only=True).measurement()

    assert measurement.valid, measurement.findings
    assert [board.device.uuid for board in measurement.boards] == list(UUIDS)
    assert measurement.device.name == "2 x NVIDIA H200"
    for number, window in enumerate(measurement.windows):
        parts = [board.windows[number] for board in measurement.boards]
        assert window.energy_j == pytest.approx(sum(part.energy_j for part in parts))
        assert window.energy_u_j**2 == pytest.approx(sum(part.energy_u_j**2 for part in parts))
        assert {part.work for part in parts} == {window.work}
    assert measurement.idle.energy_j == sum(board.idle.energy_j for board in measurement.boards)


def test_copies_on_two_boards_do_twice_the_work_at_the_energy_of_one(make_lab, states):
    alone = joulelab.measure("gemm", point=AT_810, lab=make_lab(num_gpus=1)).measurement()

    both = on_two(make_lab, AT_810).measurement()

    assert both.time_per_unit_s == pytest.approx(alone.time_per_unit_s / 2, rel=0.02)
    assert both.energy_per_unit_j == pytest.approx(alone.energy_per_unit_j, rel=0.10)  # boards


def test_a_search_says_on_how_many_gpus_its_trials_run(make_lab, states, capsys):
    """Of trials that take two it said "on 1 GPU", since one leads the other."""
    lab = make_lab(gpus_per_trial=2, observe_only=True, progress=True)

    joulelab.search("gemm", {"precision": ["bf16"]}, lab=lab, budget=Budget(num_trials=1))

    assert " on 2 GPUs, " in capsys.readouterr().err


def test_what_is_stored_and_tracked_tells_of_every_board(make_lab, states):
    result = on_two(make_lab, observe_only=True)

    (stored,) = ResultStore(result.folder).read()
    assert stored == result.measurement()
    parts = [metrics(stored)[f"gpu{number}.energy_per_unit_j"] for number in range(2)]
    assert sum(parts) == pytest.approx(metrics(stored)["energy_per_unit_j"])
    assert tags(stored)["gpu1.uuid"] == UUIDS[1]
    assert UUIDS[1] in str(result)


def test_a_clock_is_locked_on_every_board_and_given_back(make_lab, states):
    measurement = on_two(make_lab, AT_810).measurement()

    assert measurement.valid, measurement.findings
    assert [board.observed.sm_clock_mhz for board in measurement.boards] == [810, 810]
    assert [board.observed.clock_residency for board in measurement.boards] == [1.0, 1.0]
    assert all(state.settings().point.is_default for state in states)


def test_where_one_board_is_lent_elsewhere_none_is_taken(make_lab, states, tmp_path, guard_socket):
    with lent_elsewhere(UUIDS[1], tmp_path / "driver", guard_socket):
        measurement = on_two(make_lab, AT_810).measurements[-1]

    assert [finding.reason for finding in measurement.findings] == ["lease_lost"]
    assert all(state.settings().point.is_default for state in states)


def test_what_voids_one_board_voids_the_sum_and_names_it(make_lab, states):
    states[1].inject(Fault(kind="foreign_process", pid=FOREIGN_PID))

    stored = on_two(make_lab, observe_only=True).measurements[-1]

    assert [finding.reason for finding in stored.findings] == ["foreign_process"]
    assert stored.findings[0].detail.startswith(f"{UUIDS[1]}: ")
    assert [bool(board.findings) for board in stored.boards] == [False, True]
    assert "energy_per_unit_j" not in metrics(stored)


def test_sums_over_boards_take_the_link_of_the_catalogue(tmp_path):
    """A ring sends each byte once between two boards: 9 GB at 450 GB/s take 20 ms, and two hops."""
    device, sum_b = typical(tmp_path), 9e9
    kernel = KernelCost(name="all_reduce", pipe="fp32", flop=0.0, dram_b=2 * sum_b, written_b=sum_b)

    durations_s = [
        device.machine.duration_s(
            device.machine.model_of(
                PhaseCost(phase="sum", work=1, kernels=(kernel,), num_devices=num_devices), "random"
            )
        )
        for num_devices in (1, 2)
    ]

    assert durations_s[1] - durations_s[0] == pytest.approx(0.020 + 4e-6, rel=1e-3)


def test_a_board_that_kept_up_with_another_does_all_of_its_own_work_next(tmp_path):
    """Boards near their power limit took turns as the slowest, whose next work was free."""
    device, cost = typical(tmp_path), gemm(8192)
    machine, clock = device.machine, device.clock
    model = machine.model_of(cost, "random")
    machine.begin(model)
    clock.sleep_s(1.0)
    machine.let_end()
    start_s = clock.now_s()

    machine.execute(model, 10)

    assert clock.now_s() - start_s == pytest.approx(10 * machine.duration_s(model), rel=0.01)


def test_groups_are_of_one_machine_and_product(tmp_path):
    found = [StudyGpu.of(address) for address in fleet(("h200_sxm", "a40"), 3, str(tmp_path))]

    groups = grouped(found, 2)

    assert [(group.uuid, group.partners[0].uuid) for group in groups] == [
        UUIDS,
        ("SIM-a40-0", "SIM-a40-1"),
    ]
    with pytest.raises(ConfigError, match="gpus_per_trial 4"):
        grouped(found, 4)


def test_a_number_of_gpus_that_trials_do_not_use_up_is_refused(make_lab):
    with pytest.raises(ConfigError, match="divide num_gpus"):
        make_lab(num_gpus=3, gpus_per_trial=2)
