"""One clock, or a few, for many applications."""

import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic_results import sweep

from joulelab.analysis.many_studies_plot import knob_of, save_policy_plot
from joulelab.analysis.policy import Application, applications_of, policies
from joulelab.cli.many_studies import point_words, policy_fields, policy_frame, policy_words
from joulelab.core.additive import fit_additive
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, MeasurementError

CLOCKS_MHZ = tuple(range(600, 1801, 100))


def application(name, best_mhz, *, u=0.001, steep=1.0, clocks=CLOCKS_MHZ):
    """Cost is lowest at ``best_mhz`` and grows with the square of the clock's logarithm."""
    labels = ["default", *(f"{clock}MHz" for clock in clocks)]
    costs = [steep * np.log(clock / best_mhz) ** 2 for clock in (clocks[-1], *clocks)]
    fit = fit_additive(labels, ["a"] * len(labels), costs, [u] * len(labels))
    points = [OperatingPoint(), *(OperatingPoint(sm_clock_mhz=clock) for clock in clocks)]
    return Application(name=name, fit=fit, points={point.label: point for point in points})


def test_one_clock_lies_between_the_optima_and_its_regrets_are_the_costs_there():
    low, high = application("low", 800), application("high", 1200)

    [policy] = policies([low, high], most_points=1)

    assert policy.points == (at(1000),)
    assert policy.served[0].own == at(800)
    assert policy.served[0].regret.value == pytest.approx(np.expm1(np.log(1.25) ** 2))
    assert policy.served[1].regret.value == pytest.approx(np.expm1(np.log(1.2) ** 2))
    assert policy.worst_regret == policy.served[0].regret.value
    logs = [np.log(1.25) ** 2, np.log(1.2) ** 2]
    assert policy.mean_regret == pytest.approx(np.expm1(np.mean(logs)))
    at_default = np.log(1800 / 800) ** 2
    assert policy.served[0].change.value == pytest.approx(np.expm1(np.log(1.25) ** 2 - at_default))


def test_an_application_that_loses_more_pulls_the_clock_its_way():
    flat, steep = application("flat", 800), application("steep", 1500, steep=20.0)

    [policy] = policies([flat, steep], most_points=1)

    assert policy.points == (at(1500),)


def test_as_many_clocks_as_optima_leave_no_regret_and_end_the_policies():
    every = [application("a", 700), application("b", 1200), application("c", 1200)]

    one, two = policies(every, most_points=4)

    assert one.worst_regret > 0
    assert set(two.points) == {at(700), at(1200)}
    assert two.worst_regret == two.mean_regret == 0
    assert [each.point for each in two.served] == [at(700), at(1200), at(1200)]
    assert not two.equals


def test_clocks_that_readings_cannot_tell_apart_are_equals():
    sure = policies([application("a", 1000), application("b", 1040)], most_points=1)
    unsure = policies(
        [application("a", 1000, u=0.02), application("b", 1040, u=0.02)], most_points=1
    )

    assert sure[0].equals == (at(1000),)
    assert set(unsure[0].equals) >= {at(900), at(1000), at(1100)}
    assert at(600) not in unsure[0].equals


def test_the_drivers_default_is_chosen_where_no_clock_is_better(tmp_path):
    """It was left out of the candidates, so that a slower clock was recommended in its place."""
    every = [over(name, {at(): 0.0, at(900): 0.3, at(1200): 0.1}) for name in ("a", "b")]

    [policy] = policies(every, most_points=1)

    assert policy.points == (at(),)
    assert policy.mean_regret == 0
    assert policy.served[0].change.value == 0
    assert policy_words(policy, "edp").startswith("The driver's default for 2 applications")
    drawn = save_policy_plot(every, policy, tmp_path / "policy.svg", aim="EDP").read_text()
    assert "<!-- the driver's default -->" in drawn


def test_points_that_an_application_lacks_are_left_out_and_none_is_an_error():
    whole = application("whole", 1000)
    half = application("half", 1000, clocks=CLOCKS_MHZ[::2])
    other = application("other", 1000, clocks=(650, 750))

    [policy] = policies([whole, half], most_points=1)

    assert policy.points[0] in half.points.values()
    assert policy.num_left_out == len(CLOCKS_MHZ[1::2])
    assert "; 6 points were left out, where not every" in policy_words(policy, "edp")
    with pytest.raises(MeasurementError, match="the same clocks"):
        policies([whole, other])


def test_applications_that_share_the_drivers_default_alone_are_told_so():
    """It was said that no operating point was measured with all, and the default was."""
    apart = [application("a", 700, clocks=(600, 700)), application("b", 900, clocks=(800, 900))]

    with pytest.raises(MeasurementError, match="No operating point but the driver's own was"):
        policies(apart, most_points=1)


def test_regret_is_over_the_best_of_the_whole_sweep_though_another_application_lacks_it():
    """The best of what all have was called each application's own: 0 % above it, always."""
    whole = application("whole", 900)
    half = application("half", 1000, clocks=CLOCKS_MHZ[::2])

    *_, last = policies([whole, half], most_points=4)

    served = {each.name: each for each in last.served}
    assert served["whole"].own == at(900)
    assert served["whole"].point in (at(800), at(1000))
    assert served["whole"].regret.value == pytest.approx(np.expm1(np.log(10 / 9) ** 2))
    assert served["half"].regret.value == 0
    assert last.points == (at(1000),)  # no second one serves either better


@pytest.mark.parametrize(
    ("names", "most_points", "why"),
    [(["a"], 1, "two applications"), (["a", "a"], 1, "each once"), (["a", "b"], 0, "1 or more"),
     (["a", "b"], 99, "at most 14")],
)  # fmt: skip
def test_what_cannot_be_chosen_is_an_error(names, most_points, why):
    with pytest.raises(ConfigError, match=why):
        policies([application(name, 1000) for name in names], most_points=most_points)


def test_sweeps_are_applications_named_by_what_sets_them_apart():
    one = sweep((900, 1200, 1500), noise=0.001)
    other = [
        replace(
            m, configuration=replace(m.configuration, knobs=(("batch", 99), ("precision", "bf16")))
        )
        for m in one
    ]

    found = applications_of([*one, *other])

    assert [each.name for each in found] == ["llama decode batch=8", "llama decode batch=99"]
    assert all("default" in each.points for each in found)


def test_two_products_are_not_compared():
    one = sweep((900, 1200, 1500), noise=0.001)
    other = [replace(m, device=replace(m.device, name="Another GPU")) for m in one]

    with pytest.raises(MeasurementError, match="Another GPU"):
        applications_of([*one, *other])


def test_a_policy_is_told_drawn_and_tabulated(tmp_path):
    every = [application("low", 800), application("high", 1200)]
    found = policies(every, most_points=2)

    path = save_policy_plot(every, found[0], tmp_path / "policy.svg", aim="EDP")

    words = policy_words(found[0], "edp")
    assert words.startswith("1000 MHz for 2 applications: ")
    assert "at worst (low)" in words
    assert "<svg" in path.read_text()
    table = policy_frame(found)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == 4
    assert rows[0]["regret"] == found[0].served[0].regret.value
    assert rows[0]["point"] == policy_fields(found[0])["points"][0] == "1000MHz"


def over(name, costs):
    """An application with a cost for each point."""
    points = {point.label: point for point in costs}
    fit = fit_additive(list(points), ["a"] * len(costs), list(costs.values()), [0.001] * len(costs))
    return Application(name=name, fit=fit, points=points)


def at(sm=None, mem=None, limit=None):
    return OperatingPoint(sm_clock_mhz=sm, mem_clock_mhz=mem, power_limit_w=limit)


@pytest.mark.parametrize(
    ("points", "axis", "named"),
    [
        ([at(limit=watts) for watts in (300, 400, 500)], "power limit, W", "400 W"),
        ([at(mem=clock) for clock in (2201, 3201, 3301)], "memory clock, MHz", "memory 3201 MHz"),
        ([at(clock, limit=300) for clock in (900, 1200, 1500)], "SM clock, MHz", "1200 MHz, 300 W"),
        ([at(900, limit=300), at(1200), at(1200, limit=300), at(900)], "SM clock, MHz", "1200 MHz"),
        ([at(900), at(limit=300), at(1200)], "SM clock, MHz", "300 W"),
    ],
    ids=["limits", "memory clocks", "clocks at a limit", "a grid", "clocks, or a limit"],
)
def test_points_of_any_knob_are_drawn(tmp_path, points, axis, named):
    """Points with a power limit once ended in a ValueError."""
    costs = dict(zip(points, (0.1, 0.0, 0.2, 0.3), strict=False))
    every = [over("one", costs), over("other", {k: 2 * v for k, v in costs.items()})]
    [policy] = policies(every, most_points=3)
    assert point_words(policy.points[0]) == named

    path = save_policy_plot(every, policy, tmp_path / "policy.svg", aim="EDP")

    drawn = re.findall(r"<!-- (.*?) -->", path.read_text())
    assert axis in drawn
    assert named in drawn


def test_points_that_set_no_knob_have_no_axis():
    with pytest.raises(ConfigError, match="no axis"):
        knob_of([at()])
