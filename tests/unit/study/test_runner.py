"""A program of one's own: measured, swept and searched in this process."""

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from alone import run_alone
from fake_gpu import FOREIGN_PID

import joulelab
from joulelab.core.device import DeviceIdentity
from joulelab.devices.simulated import DriverStore, Fault, fleet
from joulelab.errors import ConfigError, DeviceNotFoundError, MeasurementError, UnknownNameError
from joulelab.hardware.board_facts import BoardFacts, Fact, board_text
from joulelab.study.lab import StudyWorkload
from joulelab.study.search import check_search
from joulelab.tracking.mlflow_calibrations import register_calibration
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.idle import Idle, IdleSettings
from joulelab.workloads.launch_loop import GemmSettings

CLOCKS_MHZ = (1200, 990, 810)
EXAMPLES = range(128)


def step(batch: int = 4):
    raise AssertionError("a simulated GPU plays the cost")


def rounding(batch: int = 1):
    raise AssertionError("a simulated GPU plays the cost")


rounding.quality = lambda batch: [example >= batch or batch == 1 for example in EXAMPLES]


def per_row(batch):
    return batch


def kept(row):
    return row.found.figures.retention


def cost(batch):
    kernel = joulelab.KernelCost(name="gemm", pipe="tensor_bf16", flop=1e11 * batch, dram_b=1e9)
    return joulelab.PhaseCost(phase="run", work=1, kernels=(kernel,))


def test_a_function_is_measured_through_the_whole_procedure(make_lab):
    result = joulelab.measure(step, unit="row", cost=cost, work=4, lab=make_lab())

    measurement = result.measurement()
    assert result.valid, measurement.findings
    assert measurement.unit == "row"
    assert measurement.configuration.workload == f"{__name__}.step"
    assert measurement.receipt is not None
    assert f"{measurement.device.uuid}" in str(result)
    [stored] = ResultStore(result.folder).read()
    assert stored == measurement


def test_energy_per_unit_is_that_of_a_call_over_the_work_that_it_does(make_lab):
    lab = make_lab()
    whole = joulelab.measure(step, cost=cost, lab=lab).measurement()

    parts = joulelab.measure(
        step, cost=cost, work=lambda batch: 10.0 * batch, lab=make_lab(study="parts")
    ).measurement()

    assert parts.time_per_unit_s == pytest.approx(whole.time_per_unit_s / 40, rel=0.01)
    assert parts.power_w == pytest.approx(whole.power_w, rel=0.02)


def test_a_measurement_can_be_had_as_a_table_a_plot_and_a_report(make_lab, tmp_path):
    result = joulelab.measure("gemm", knobs={"n": 4096}, lab=make_lab())

    result.plot(tmp_path / "power.png")
    page = result.report(tmp_path / "report.html").read_text()

    assert result.to_frame()["n"].tolist() == [4096]
    assert (tmp_path / "power.png").stat().st_size > 1000
    assert "NVIDIA H200" in page


def test_what_is_not_valid_has_no_number(make_lab, tmp_path):
    store = str(tmp_path / "driver")
    [address] = fleet("h200_sxm", 1, store)
    DriverStore(store).state(address.uuid).inject(Fault(kind="foreign_process", pid=FOREIGN_PID))

    result = joulelab.measure("gemm", lab=make_lab())

    assert not result.valid
    with pytest.raises(MeasurementError, match="foreign"):
        _ = result.measurement().energy_per_unit_j


def test_a_sweep_finds_the_lowest_clock_of_a_program_that_waits_for_memory(make_lab, tmp_path):
    found = joulelab.sweep("stream", clocks_mhz=CLOCKS_MHZ, repeats=2, lab=make_lab())

    frame = found.to_frame()
    assert set(frame["sm_clock_mhz"].dropna()) == set(CLOCKS_MHZ)
    assert found.best.point.sm_clock_mhz == frame.loc[frame["edp_js"].idxmin(), "sm_clock_mhz"]
    found.plot(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    assert "MHz" in found.report(tmp_path / "sweep.html").read_text()


def test_a_sweep_measures_on_several_gpus_in_turn_each_with_the_sentinel(make_lab):
    lab = make_lab(num_gpus=2)

    found = joulelab.sweep(
        step, cost=cost, clocks_mhz=CLOCKS_MHZ, repeats=2, sentinel_every=4, lab=lab
    )

    boards = {m.device.uuid for m in found.measurements}
    assert boards == {m.device.uuid for m in found.measurements if m.sentinel}
    assert len(boards) == 2


def test_a_study_goes_on_by_its_name_and_measures_nothing_twice(make_lab):
    lab = make_lab(study="again")
    asked = {"cost": cost, "clocks_mhz": CLOCKS_MHZ, "repeats": 1, "lab": lab}
    first = joulelab.sweep(step, **asked)

    second = joulelab.sweep(step, **asked)

    assert second.summary.num_skipped == first.summary.num_trials
    assert len(second.measurements) == len(first.measurements)


def test_a_search_chooses_among_clocks_and_knobs(make_lab, tmp_path):
    space = {"sm_clock_mhz": list(CLOCKS_MHZ), "batch": [1, 8]}

    found = joulelab.search(
        step, space, cost=cost, unit="row", work=lambda batch: batch, lab=make_lab()
    )

    assert found.best.values[1] == 8  # reads as much for one row as for eight
    assert dict(found.best.configuration.knobs) == {"batch": 8}
    assert found.to_frame()["is_best"].sum() == 1
    found.plot(tmp_path / "front.svg")
    assert "batch 8" in found.report(tmp_path / "search.html").read_text()


@pytest.mark.parametrize("knob", ["sm_clock_mhz", "mem_clock_mhz"])
def test_a_search_refuses_a_clock_that_cannot_be_set_before_it_measures(make_lab, tmp_path, knob):
    """It measured the baseline, perhaps more, and ended without an answer once it came to it."""
    with pytest.raises(ConfigError, match=f"{knob} must be one of the device's .* got 1001"):
        joulelab.search(step, {knob: [1001]}, cost=cost, lab=make_lab())

    assert not list(tmp_path.rglob("*.jsonl"))


def test_the_drivers_own_power_limit_may_be_among_those_of_a_search(make_lab):
    """None, which clocks may be, ended it in a traceback."""
    budget = joulelab.Budget(num_trials=2)

    found = joulelab.search(
        step, {"power_limit_w": [None, 300]}, cost=cost, budget=budget, lab=make_lab()
    )

    assert {row.values for row in found.result.rows} == {(None,), (300,)}


@pytest.mark.parametrize(
    "study",
    [
        lambda lab: joulelab.measure(step, knobs={"batch": np.int64(8)}, cost=cost, lab=lab),
        lambda lab: joulelab.search(step, {"batch": np.array([1, 8])}, cost=cost, lab=lab),
        lambda lab: joulelab.sweep(step, clocks_mhz=np.array(CLOCKS_MHZ), cost=cost, lab=lab),
    ],
)
def test_integers_of_numpy_are_refused_by_name(make_lab, study):
    """They ended in tracebacks of JSON and of truth values, or were called no positive work."""
    with pytest.raises(ConfigError, match=r"^(On NVIDIA H200 )?(batch|sm_clock_mhz) must be"):
        study(make_lab())


@pytest.mark.parametrize(
    ("bounds", "pace"),
    [
        ((), "quick"),
        # A quick trial ends before the board is as hot as it gets.
        ((joulelab.Constraint(quantity="temperature_c", bound=80),), "reference"),
    ],
)
def test_a_search_is_quick_unless_it_counts_how_hot_a_board_gets(make_lab, bounds, pace):
    lab = make_lab(procedure=joulelab.Procedure())
    budget = joulelab.Budget(num_trials=4)

    found = joulelab.search(
        step, {"batch": [1, 8]}, cost=cost, constraints=bounds, budget=budget, lab=lab
    )

    assert {each.pace for each in found.measurements} == {pace}


def calibration_of(uuid):
    return BoardFacts(
        schema=1,
        device=DeviceIdentity(uuid=uuid, name="N", backend="nvml", driver_version="1"),
        host="there",
        measured_at="",
        joulelab_version="",
        facts=(),
    )


@pytest.mark.parametrize(
    "study",
    [
        lambda lab: joulelab.search(step, {"sm_clock_mhz": CLOCKS_MHZ}, cost=cost, lab=lab),
        lambda lab: joulelab.sweep(step, clocks_mhz=CLOCKS_MHZ, cost=cost, lab=lab),
    ],
)
def test_a_study_asks_for_the_calibration_once_and_measures_by_it(make_lab, monkeypatch, study):
    """A search asked a server for it twice."""
    late, asked, measured = Fact(name="sample_lag_s", value=0.4, u=0.01), [], []
    pool = joulelab.Lab.pool

    def facts(_lab, gpus):
        asked.append(gpus)
        return replace(calibration_of(""), facts=(late,))

    def noted(lab, gpus, how):
        measured.append(how.procedure)
        return pool(lab, gpus, how)

    monkeypatch.setattr(joulelab.Lab, "facts", facts)
    monkeypatch.setattr(joulelab.Lab, "pool", noted)

    study(make_lab())

    assert len(asked) == 1
    assert [each.sample_lag_s for each in measured] == [0.4]


def test_a_search_refuses_the_calibration_of_another_board(make_lab, tmp_path):
    lab, path = make_lab(), tmp_path / "board.json"
    path.write_text(board_text(calibration_of("other")))

    with pytest.raises(ConfigError, match="board was other and is SIM-h200_sxm-0, driver was 1"):
        joulelab.search(step, {"batch": [1, 8]}, cost=cost, lab=replace(lab, calibration=path))


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Operation with range is deprecated")
def test_a_registered_calibration_is_looked_up_in_the_store_of_the_study(make_lab, store_uri):
    where = Path("models:/board")
    register_calibration(store_uri, "board", calibration_of("other"))

    with pytest.raises(ConfigError, match="board was other and is SIM-h200_sxm-0"):
        joulelab.sweep(step, cost=cost, lab=make_lab(calibration=where, tracking_uri=store_uri))
    with pytest.raises(ConfigError, match="there is none: name one"):
        joulelab.sweep(step, cost=cost, lab=make_lab(calibration=where))


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Operation with range is deprecated")
def test_the_calibration_of_its_board_is_taken_from_the_store_of_the_study(make_lab, store_uri):
    lab = make_lab(tracking_uri=store_uri)
    with lab.open() as gpus:
        own = replace(calibration_of(""), device=gpus[0].identity, host=gpus[0].hostname)
        assert lab.facts(gpus) is None

        register_calibration(store_uri, "board", own)

        assert lab.facts(gpus) == own
        assert make_lab().facts(gpus) is None


def test_clocks_are_given_back_when_a_study_has_ended(make_lab, tmp_path):
    joulelab.sweep(step, cost=cost, clocks_mhz=CLOCKS_MHZ, repeats=1, lab=make_lab())

    assert DriverStore(tmp_path / "driver").locked_uuids() == ()


@pytest.mark.parametrize(
    ("asked", "error", "complaint"),
    [
        ({"program": step}, ConfigError, "step has no cost, which simulated GPUs"),
        ({"program": "gem"}, UnknownNameError, "Did you mean 'gemm'"),
        ({"program": "gemm", "unit": "x"}, ConfigError, "says unit, work, cost and quality"),
        ({"program": "gemm", "knobs": {"m": 1}}, UnknownNameError, "knob of gemm"),
        (
            {"program": "gemm", "point": joulelab.OperatingPoint(sm_clock_mhz=1001)},
            ConfigError,
            "the nearest: 990 and 1005",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_written(
    make_lab, tmp_path, asked, error, complaint
):
    with pytest.raises(error, match=complaint):
        joulelab.measure(**asked, lab=make_lab())

    assert not (tmp_path / "results").exists()


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(make_lab):
    with pytest.raises(DeviceNotFoundError, match="SIM-h200_sxm-0"):
        joulelab.measure("gemm", lab=make_lab(uuids=("GPU-7",)))


def test_settings_of_a_workload_say_which_it_is_and_knobs_go_over_them(make_lab):
    settings = GemmSettings(n=4096, precision="fp16")

    result = joulelab.measure(settings, knobs={"n": 2048}, lab=make_lab())

    measured = result.measurement().configuration
    assert measured.workload == "gemm"
    assert dict(measured.knobs) == asdict(replace(settings, n=2048))


@dataclass
class Rest(Idle):
    """A workload that is a dataclass, too."""

    settings: IdleSettings


def test_a_workload_that_is_a_dataclass_is_not_taken_for_settings(make_lab):
    result = joulelab.measure(Rest(IdleSettings()), lab=make_lab())

    assert result.measurement().configuration.workload == f"{__name__}.Rest"


def test_settings_of_nothing_known_are_refused(make_lab):
    with pytest.raises(ConfigError, match="Procedure is neither a program nor the settings"):
        joulelab.measure(joulelab.Procedure(), lab=make_lab())


def test_a_sweep_without_clocks_measures_the_drivers_own_and_needs_no_setter(make_lab):
    lab = make_lab(observe_only=True)

    found = joulelab.sweep("gemm", mode="baseline", repeats=2, lab=lab)

    assert {m.configuration.point for m in found.measurements} == {joulelab.OperatingPoint()}


def test_the_header_of_a_study_has_what_was_asked_or_the_settings_of_an_experiment(make_lab):
    own = joulelab.measure("gemm", lab=make_lab())
    told = joulelab.measure("gemm", settings=GemmSettings(n=64), lab=make_lab(study="told"))

    asked = dict(ResultStore(own.folder).read_study().settings)
    assert (asked["program"], asked["lab.gpu"]) == ("gemm", "h200_sxm")
    assert dict(ResultStore(told.folder).read_study().settings) == asdict(GemmSettings(n=64))


@pytest.mark.parametrize(
    ("study", "complaint"),
    [
        (lambda lab: joulelab.sweep("gemm", lab=lab), "observe-only calls no setter"),
        (
            lambda lab: joulelab.search("gemm", {"sm_clock_mhz": "all"}, lab=lab),
            "leave sm_clock_mhz out",
        ),
        (lambda lab: joulelab.search("gemm", {"n": [64, -1]}, lab=lab), "n must be"),
        (lambda lab: joulelab.search("gemm", {"n": [64]}, seed=-1, lab=lab), "seed must be"),
        (
            lambda lab: joulelab.search("gemm", {"n": [64]}, strategy="gird", lab=lab),
            "Did you mean 'grid'",
        ),
    ],
)
def test_what_none_could_carry_out_is_refused_before_a_gpu_is_looked_for(
    make_lab, tmp_path, study, complaint
):
    with pytest.raises(ConfigError, match=complaint):
        study(make_lab(observe_only=True, uuids=("GPU-nowhere",)))

    assert not (tmp_path / "results").exists()


def test_an_axis_in_words_is_refused_unless_it_is_all_clocks(make_lab):
    with pytest.raises(ConfigError, match="'all' goes with sm_clock_mhz"):
        joulelab.search("gemm", {"n": "all"}, lab=make_lab())
    asked = {"sm_clock_mhz": "all"}
    check_search(make_lab(), StudyWorkload("gemm"), asked, strategy="random", seed=0)


def test_every_value_on_an_axis_of_the_gpu_is_checked_before_there_is_a_gpu(make_lab):
    asked = {"power_limit_w": [300.0, -5.0]}

    with pytest.raises(ConfigError, match="power_limit_w"):
        check_search(make_lab(), StudyWorkload("gemm"), asked, strategy="random", seed=0)


def test_a_product_is_named_for_simulated_gpus_alone(make_lab):
    with pytest.raises(ConfigError, match="gpu names a product to simulate, got 'h200_sxm'"):
        make_lab(device="nvml")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"program": "gemm", "space": {"n": [256, 512]}}, "Unknown workload with outputs to score"),
        ({"program": step, "cost": cost}, "step does not say what its outputs are worth"),
        ({"program": rounding, "cost": None}, "rounding has no cost, which simulated GPUs"),
        ({"program": rounding, "metric": "accuracy"}, "choose from own_score"),
        ({"program": rounding, "objective": "edp", "metric": "bleu"}, "does not count for the"),
        ({"program": rounding, "quality_floor": 2.0}, "A floor of quality is a share"),
        ({"program": rounding, "quality": lambda batch: None}, "a number for each example, got No"),
        ({"program": rounding, "quality_direction": "up"}, "must be 'higher' or 'lower'"),
        ({"program": "gemm", "quality": lambda: 1.0}, "it says unit, work, cost and quality"),
    ],
)
def test_a_search_over_quality_that_cannot_be_is_refused_before_anything_is_made(
    make_lab, tmp_path, asked, complaint
):
    usual = {"space": {"batch": [1, 8]}, "objective": "qep", "lab": make_lab()}
    costs = {"cost": cost} if asked["program"] is rounding else {}

    with pytest.raises(ConfigError, match=complaint):
        joulelab.search(**usual | costs | asked)

    assert not (tmp_path / "results").exists()


def test_a_search_over_quality_keeps_to_its_floor_and_finds_the_front(make_lab):
    space = {"sm_clock_mhz": list(CLOCKS_MHZ), "batch": [1, 8, 64]}

    found = joulelab.search(
        rounding, space, objective="qep", quality_floor=0.8, cost=cost, work=per_row, lab=make_lab()
    )

    retentions = {dict(row.configuration.knobs)["batch"]: kept(row) for row in found.front}
    assert found.best.values[1] == 8  # 64 would be the cheapest, and loses too much
    assert retentions == {8: pytest.approx(1 - 8 / 128, abs=1e-9), 1: 1.0}
    assert set(found.to_frame()["retention"].dropna()) <= {1.0, 0.9375, 0.5}
    assert "batch 64: 50.00 % " in str(found)
    assert "quality 93.8 %" in str(found)


def test_any_objective_can_be_searched_under_a_floor_of_quality(make_lab):
    floor = joulelab.Constraint(quantity="quality", bound=0.4)
    space = {"sm_clock_mhz": list(CLOCKS_MHZ), "batch": [1, 8, 64]}

    found = joulelab.search(
        step,
        space,
        constraints=[floor],
        quality=lambda batch: 1.0 + batch,
        quality_direction="lower",
        cost=cost,
        work=per_row,
        lab=make_lab(),
    )

    assert found.best.values[1] == 1
    assert {kept(row) for row in found.result.rows} <= {1.0, 2 / 9, 2 / 65}
    assert "quality returned one number" in str(found)


def test_a_workload_of_ours_is_scored_and_searched_in_this_process(make_lab):
    space = {"precision": ["fp32", "int4"], "batch": [16, 64]}

    found = joulelab.search(
        "digits-vit",
        space,
        knobs={"weights": None},
        objective="qep",
        quality_floor=None,
        metric="class_agreement",
        lab=make_lab(),
    )

    assert {dict(c)["precision"] for c in found.scores.kept} == {"fp32", "int4"}
    assert 0 < min(kept(row) for row in found.result.rows) < 1


def test_nothing_of_this_needs_ray_mlflow_or_torch(tmp_path, guard_socket):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['ray', 'mlflow']))\n"
        "import joulelab; from pathlib import Path\n"
        "from actor_fixtures import QUICK\n"
        "from joulelab.core.cost import PhaseCost\n"
        f"lab = joulelab.Lab(device='simulated', gpu='h200_sxm', store={str(tmp_path)!r},\n"
        f"    results_dir={str(tmp_path)!r}, guard_socket=Path({str(guard_socket)!r}),\n"
        "    procedure=QUICK, progress=False)\n"
        "wait = PhaseCost(phase='run', work=1, wait_s=0.1)\n"
        "print(joulelab.sweep(lambda: None, cost=wait, clocks_mhz=[990], repeats=2, lab=lab))\n"
        "assert 'torch' not in sys.modules"
    )

    assert "MHz" in run_alone(code)


def test_two_files_of_one_name_are_measured_each(make_lab, tmp_path, monkeypatch):
    """The first was measured twice."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = """
import joulelab

def step():
    ...

step.cost = joulelab.PhaseCost(phase="run", work=1, wait_s={wait_s})
"""
    times_s = []
    for folder, wait_s in (("a", 0.01), ("b", 0.02)):
        path = tmp_path / folder / "twin_step.py"
        path.parent.mkdir()
        path.write_text(source.format(wait_s=wait_s))
        result = joulelab.measure(f"{path}:step", lab=make_lab())
        times_s.append(result.measurement().time_per_unit_s)

    assert times_s[1] == pytest.approx(2 * times_s[0], rel=0.05)


def test_settings_alone_are_the_workloads_and_not_a_programs_that_takes_them(make_lab):
    """After a program with the settings of ``idle``, ``IdleSettings()`` was that program."""
    lab = make_lab()
    joulelab.measure(Rest(IdleSettings()), lab=lab)

    assert WORKLOADS.name_of(IdleSettings()) == "idle"


def test_a_sweep_over_several_boards_can_be_replayed(make_lab, tmp_path, guard_socket):
    """It was refused: each board was measured at clocks of its own, and was to have all of them."""
    options = {"results_dir": tmp_path, "guard_socket": guard_socket, "progress": False}
    recorded = joulelab.sweep(
        "gemm", every=8, repeats=2, lab=make_lab(num_gpus=3, study="recorded")
    )
    boards = {
        uuid: {m.configuration.point for m in recorded.measurements if m.device.uuid == uuid}
        for uuid in {m.device.uuid for m in recorded.measurements}
    }
    lab = joulelab.Lab(device="replay", store=recorded.folder, num_gpus=3, **options)

    found = joulelab.sweep("gemm", every=1, repeats=2, lab=lab)

    assert len({frozenset(points) for points in boards.values()}) > 1
    points = {row.point for row in recorded.result.phases[0].rows if row.figures}
    assert {row.point for row in found.result.phases[0].rows if row.figures} == points
    assert all(m.configuration.point in boards[m.device.uuid.removeprefix("REPLAY-")]
               for m in found.measurements)  # fmt: skip


def test_a_recorded_sweep_of_constant_power_is_read(tmp_path, guard_socket):
    table = tmp_path / "sweep.csv"
    rows = (f"A100(GA100),bfs,{clock_mhz},200,1\n" for clock_mhz in (1410, 1200, 900))
    table.write_text("gpu,app,sm_clock_mhz,power_w,time_s\n" + "".join(rows))
    lab = joulelab.Lab(
        device="replay", store=table, results_dir=tmp_path, guard_socket=guard_socket,
        progress=False,
    )  # fmt: skip

    found = joulelab.sweep("recorded", lab=lab)

    assert all(each.valid for each in found.measurements)
    assert [each.power_w for each in found.measurements] == pytest.approx(
        [200.0] * len(found.measurements), rel=1e-3
    )
