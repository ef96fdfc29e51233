"""``joulelab plan``: numbers of repeats against published tables, and the scatter of a pilot."""

import json

import numpy as np
import pytest
from synthetic_results import header, measurement, record

from joulelab.cli.main import main
from joulelab.cli.results import repeats_to_see, scatter_of
from joulelab.errors import MeasurementError
from joulelab.tracking.store import ResultStore


@pytest.mark.parametrize(
    ("effect", "power", "pairs"), [(0.2, 0.8, 199), (0.5, 0.8, 34), (0.8, 0.8, 15), (0.5, 0.95, 54)]
)
def test_numbers_of_pairs_are_those_of_g_power(effect, power, pairs):
    """G*Power 3.1, difference of two dependent means, two-sided at 5 %."""
    scatter = np.log1p(0.01) / (effect * np.sqrt(2))

    assert repeats_to_see(0.01, scatter, power=power, alpha=0.05) == pairs


@pytest.mark.parametrize("scatter", [1e-6, 1e-4, 1e-3])
def test_a_change_far_beyond_the_scatter_takes_two_or_three_repeats(scatter):
    assert repeats_to_see(0.1, scatter, power=0.8, alpha=0.05) in (2, 3)


def test_a_change_far_below_the_scatter_needs_another_design(capsys):
    assert repeats_to_see(0.001, 0.5, power=0.8, alpha=0.05) is None
    assert main(["plan", "--scatter", "0.5", "--change", "0.001"]) == 0
    assert "> 10000" in capsys.readouterr().out


def test_scatter_is_pooled_within_configurations_and_boards():
    """Of two values a ratio of e apart the variance is 1/2; boards and clocks differ freely."""
    pairs = [
        (measurement(clock, repeat=repeat, index=index), level * np.exp(repeat))
        for clock, index, level in ((1000, 0, 1.0), (1500, 0, 5.0), (1000, 1, 9.0))
        for repeat in range(2)
    ]

    assert scatter_of(*zip(*pairs, strict=True)) == pytest.approx(np.sqrt(0.5))


def test_without_repeats_there_is_no_scatter():
    with pytest.raises(MeasurementError, match="take --repeats 2"):
        scatter_of([measurement(1000), measurement(1500)], [1.0, 2.0])


def test_a_pilot_says_how_many_repeats_energy_and_time_need(tmp_path, capsys):
    store = ResultStore(tmp_path / "pilot")
    store.write_study(header())
    for repeat, factor in enumerate((0.99, 1.0, 1.01)):
        store.append(record(clock_mhz=1000, repeat=repeat, energy_factor=factor))
        store.append(record(clock_mhz=1500, repeat=repeat, time_factor=factor))

    code = main(["plan", str(tmp_path), "--change", "0.01", "0.05", "--json"])

    found = json.loads(capsys.readouterr().out)
    pooled = np.sqrt(np.var(np.log([0.99, 1.0, 1.01]), ddof=1) / 2)
    assert code == 0
    assert found["scatter"] == {"energy": pytest.approx(pooled), "time": pytest.approx(pooled)}
    assert found["repeats"]["energy"][0] > found["repeats"]["energy"][1]


def test_a_scatter_that_is_known_needs_no_pilot(capsys):
    assert main(["plan", "--scatter", "0.01", "--change", "0.02"]) == 0

    out = capsys.readouterr().out
    assert "2 %" in out
    assert "Repeats that show a change 80 % of the time" in out


@pytest.mark.parametrize("words", [[], ["--scatter", "0"], ["--scatter", "0.01", "--power", "2"]])
def test_what_cannot_be_planned_is_refused(words, capsys):
    assert main(["plan", *words]) == 2
