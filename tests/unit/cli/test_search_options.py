"""What users of the searches choose: axes and limits."""

from contextlib import contextmanager

import pytest

from joulelab.cli.search_options import Axes, Limits
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.errors import ConfigError
from joulelab.objectives import OBJECTIVES
from joulelab.searching.constraints import Constraint
from joulelab.study.lab import StudyWorkload
from joulelab.study.search import check_search, problem_on
from joulelab.workloads.digits import DigitsVitSettings
from joulelab.workloads.idle import IdleSettings
from joulelab.workloads.launch_loop import GemmSettings, StreamSettings
from joulelab.workloads.llama import LlamaSettings
from joulelab.workloads.lstm import LstmSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site

WORKLOAD = DigitsVitSettings()


@contextmanager
def one_site(folder, product="h200_sxm"):
    [address] = fleet(product, 1, str(folder / "driver"))
    device = SimulatedDevice.open(address)
    yield [
        Site(
            address=address,
            identity=device.identity(),
            capabilities=device.capabilities(),
            node_id="n",
            hostname="h",
        )
    ]
    device.close()


@pytest.fixture
def sites(tmp_path):
    with one_site(tmp_path) as sites:
        yield sites


@pytest.fixture
def v100(tmp_path):
    with one_site(tmp_path, "v100_sxm2") as sites:
        yield sites


def space_of(axes, sites, workload=WORKLOAD, **options):
    asked = axes.asked(workload, **options)
    return problem_on(sites, StudyWorkload(workload), asked, OBJECTIVES["edp"]).space


def test_formats_that_a_simulated_gpu_lacks_are_left_out(v100):
    axes = Axes(precisions=("bf16", "fp16", "fp8"))

    space = space_of(axes, v100, GemmSettings(precision="fp16"))

    assert space.axes["precision"] == ("fp16",)
    assert dict(space.baseline.knobs)["precision"] == "fp16"


@pytest.mark.parametrize("axes", [Axes(), Axes(precisions=("bf16", "fp8"))])
def test_a_search_in_a_format_that_a_simulated_gpu_lacks_is_refused(axes, v100):
    with pytest.raises(ConfigError, match=r"no bf16 units; it has .*fp16"):
        space_of(axes, v100, GemmSettings(precision="bf16"))


def test_clocks_are_searched_with_what_else_is_given(sites):
    axes = Axes(batches=(1, 8), power_limits_w=(500.0, 700.0), vary=(("weights=trained,none",),))

    space = space_of(axes, sites)

    assert list(space.axes) == ["sm_clock_mhz", "power_limit_w", "batch", "weights"]
    assert space.axes["weights"] == ("trained", None)
    assert dict(space.baseline.knobs)["precision"] == WORKLOAD.precision


def test_without_setters_the_operating_point_is_the_drivers(sites):
    axes = Axes(batches=(1, 8), precisions=("fp32", "bf16"))

    space = space_of(axes, sites, observe_only=True)

    assert len(space) == 4
    assert all(each.point.is_default for each in space)


@pytest.mark.parametrize(
    ("axes", "complaint"),
    [
        (Axes(batches=(1, 8)), "--batches chooses 'batch', which is no knob of stream; its knobs"),
        (Axes(precisions=("fp4",)), "--precisions chooses 'precision', .* are duration_s. Choose"),
    ],
)
def test_a_flag_for_a_knob_that_the_program_has_not_names_those_that_it_has(axes, complaint):
    workload = IdleSettings() if axes.precisions else StreamSettings()

    with pytest.raises(ConfigError, match=complaint):
        axes.asked(workload)


def test_a_power_limit_cannot_be_searched_without_setters():
    with pytest.raises(ConfigError, match="sets no power limit"):
        Axes(power_limits_w=(500.0,)).asked(WORKLOAD, observe_only=True)


def test_a_search_at_the_drivers_clock_with_nothing_to_choose_is_told_which_flag_gives_it():
    """It answered "needs at least one axis, got none"."""
    with pytest.raises(ConfigError, match="idle has neither batch nor precision: give --vary"):
        Axes().asked(IdleSettings(), observe_only=True)


@pytest.mark.parametrize(
    ("workload", "axes"),
    [
        (LlamaSettings(), {"batch": (1, 4, 16), "precision": ("bf16", "int8")}),
        (LstmSettings(batch=8), {"batch": (8, 32, 128), "precision": ("fp32", "tf32", "bf16")}),
        (IdleSettings(), {}),
    ],
)
def test_unless_axes_are_named_clock_batch_and_format_are_searched(workload, axes):
    assert Axes().asked(workload) == {"sm_clock_mhz": "all", **axes}


def test_an_axis_that_is_named_is_searched_with_the_clock_alone():
    assert Axes(batches=(1,)).asked(LlamaSettings()) == {"sm_clock_mhz": "all", "batch": (1,)}


def test_limits_that_are_given_become_constraints():
    limits = Limits(max_slowdown=0.05, max_temperature_c=70.0, max_memory_gb=24.0)

    assert limits.constraints == (
        Constraint(quantity="slowdown", bound=0.05),
        Constraint(quantity="temperature_c", bound=70.0),
        Constraint(quantity="memory_b", bound=24e9),
    )
    assert Limits().constraints == ()


@pytest.mark.parametrize("power_limit_w", [100.0, 1e5])
def test_a_power_limit_beyond_the_boards_own_is_refused_before_it_is_tried(sites, power_limit_w):
    """Each trial found out by itself, three times, that the board does not take it."""
    with pytest.raises(ConfigError, match="A power limit of SIM-h200_sxm-0, in W, must be within"):
        space_of(Axes(power_limits_w=(500.0, power_limit_w)), sites)


@pytest.mark.parametrize(
    ("axes", "asked", "said"),
    [
        (Axes(batches=(1, 0)), {}, "batch must be a whole number of at least 1"),
        (Axes(batches=(10**12,)), {}, "batch must be at most 1000000"),
        (Axes(precisions=("fp7",)), {}, "precision 'fp7'"),
        (Axes(power_limits_w=(float("nan"),)), {}, "power_limit_w must be positive"),
        (Axes(vary=(("no_such=1,2",),)), {}, "no_such"),
        (Axes(vary=(("batch=inf",),)), {}, "must be finite"),
        (Axes(), {"strategy": "fast"}, "Unknown search algorithm 'fast'"),
        (Axes(), {"seed": -1}, "seed must be within 0"),
    ],
)
def test_what_no_gpu_could_search_is_refused_without_one(axes, asked, said):
    with pytest.raises(ConfigError, match=said):
        check_search(
            Laboratory(),
            StudyWorkload(WORKLOAD),
            axes.asked(WORKLOAD),
            **{"strategy": "random", "seed": 0} | asked,
        )


@pytest.mark.parametrize("limits", [Limits(max_ttft_s=0.1), Limits(max_tpot_s=0.1)])
def test_a_bound_on_times_of_tokens_is_refused_where_there_are_none(limits):
    """The baseline was measured before the search ended, with no more than "not measured"."""
    bounds, program = limits.constraints, StudyWorkload(WORKLOAD)

    with pytest.raises(ConfigError, match="digits-vit does not tell the times of tokens; leave"):
        check_search(Laboratory(), program, {}, bounds, strategy="random", seed=0)
    generates = StudyWorkload(LlamaSettings())
    check_search(Laboratory(), generates, {}, bounds, strategy="random", seed=0)


def test_an_axis_that_is_given_by_two_options_is_refused():
    """What --vary gave was searched, and --batches left out without a word."""
    with pytest.raises(ConfigError, match="--vary gives values of batch, and so does another"):
        Axes(batches=(1, 4), vary=(("batch=8,16",),)).asked(WORKLOAD)
    with pytest.raises(ConfigError, match="--vary names batch twice"):
        Axes(vary=(("batch=1",), ("batch=8",))).asked(WORKLOAD)


@pytest.mark.parametrize("share", [2.0, 1.01, 0.0, -1.0, float("nan"), float("inf")])
def test_a_floor_of_quality_is_a_share(share):
    with pytest.raises(ConfigError, match=r"share|positive"):
        Constraint(quantity="quality", bound=share)


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize(
    "name",
    ["max_slowdown", "max_latency_s", "max_power_w", "max_temperature_c", "max_memory_gb"],
)
def test_a_limit_that_can_be_none_is_refused_where_it_is_given(name, bound):
    with pytest.raises(ConfigError, match="needs a positive bound"):
        Limits(**{name: bound})
