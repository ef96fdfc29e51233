"""Events divide a predicted energy: nothing lost, nothing twice, nothing negative."""

from dataclasses import replace
from math import fsum, inf, nan

import pytest
from group_works import PROCESSORS, energies, gemm, group, groups, streaming
from hypothesis import given
from hypothesis import strategies as st

from joulelab.errors import ConfigError
from joulelab.estimator.architecture import ARCHITECTURES, events, kappa, scaled, summed
from joulelab.estimator.architecture.base import COMPONENTS, RawEvent, partitioned
from joulelab.estimator.estimate import EnergySplit, Event

ONE = EnergySplit(compute_j=1.0, memory_j=2.0, static_j=4.0)


def of_component(found, component):
    return [event for event in found if event.path.startswith(f"{component}/")]


def energy_j(found, component):
    return fsum(event.energy_j for event in of_component(found, component))


def raw_events():
    path = st.builds("{}/{}".format, st.sampled_from(COMPONENTS), st.sampled_from("abcdef"))
    count, unit_j = st.floats(0.0, 1e20), st.floats(0.0, 1e-3)
    return st.lists(st.builds(RawEvent, path, count, st.just("events"), unit_j), max_size=20)


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda one: one.family)
@given(work=groups())
def test_events_of_any_group_sum_to_each_component_and_none_is_negative(processor, work):
    found = events(work, processor)

    assert all(event.energy_j >= 0 and event.count >= 0 for event in found)
    for component in COMPONENTS:
        expected_j = getattr(work.energy, f"{component}_j")
        assert energy_j(found, component) == pytest.approx(expected_j, rel=1e-12, abs=0)


@given(raw=raw_events(), energy=energies())
def test_any_raw_events_are_scaled_to_any_energy(raw, energy):
    found = partitioned(raw, energy)

    assert len({event.path for event in found}) == len(found)
    for component in COMPONENTS:
        expected_j = getattr(energy, f"{component}_j")
        assert energy_j(found, component) == pytest.approx(expected_j, rel=1e-12, abs=0)


def test_shares_are_in_proportion_to_counts_times_unit_energies():
    raw = [
        RawEvent("compute/a", 10.0, "events", 3e-12),
        RawEvent("compute/b", 5.0, "events", 2e-12),
    ]

    first, second, *_ = partitioned(raw, ONE)

    assert first.energy_j == pytest.approx(30 / 40)
    assert second.energy_j == pytest.approx(10 / 40)
    assert first.raw_j == 30e-12


def test_an_energy_that_no_event_explains_is_shown_as_unattributed():
    raw = [RawEvent("memory/a", 1.0, "bytes", 0.0)]

    found = partitioned(raw, ONE)

    assert {event.path: event.energy_j for event in found} == {
        "compute/unattributed": 1.0,
        "memory/a": 0.0,
        "memory/unattributed": 2.0,
        "static/unattributed": 4.0,
    }


def test_raw_events_of_one_path_become_one_event():
    raw = [
        RawEvent("compute/a", 1.0, "events", 4.0),
        RawEvent("compute/b", 1.0, "events", 10.0),
        RawEvent("compute/a", 3.0, "events", 2.0),
    ]

    first, second, *_ = partitioned(raw, ONE)

    assert (first.path, first.count, first.raw_j) == ("compute/a", 4.0, 10.0)
    assert first.energy_j == second.energy_j == 0.5


@pytest.mark.parametrize("wrong_j", [-1.0, nan, inf])
def test_an_energy_that_is_none_is_refused(wrong_j):
    with pytest.raises(ConfigError, match="compute_j must be finite and not negative"):
        partitioned([], replace(ONE, compute_j=wrong_j))


@pytest.mark.parametrize(("count", "unit_j"), [(-1.0, 1.0), (1.0, -1.0), (nan, 1.0), (inf, 1.0)])
def test_a_raw_event_that_cannot_happen_is_refused(count, unit_j):
    with pytest.raises(ConfigError, match="must be finite and not negative"):
        RawEvent("compute/a", count, "events", unit_j)


def test_an_event_outside_of_the_components_is_refused():
    with pytest.raises(ConfigError, match="path must begin with one of"):
        RawEvent("magic/a", 1.0, "events", 1.0)


def test_kappa_is_predicted_over_bottom_up_energy():
    raw = [RawEvent("compute/a", 4.0, "events", 0.05), RawEvent("memory/a", 1.0, "bytes", 0.0)]

    factors = kappa(partitioned(raw, ONE))

    assert factors == {"compute": pytest.approx(5.0)}


def test_kappa_of_scaled_and_summed_events_is_that_of_all_energy():
    first = Event(path="compute/a", count=1.0, unit="events", energy_j=4.0, raw_j=1.0)
    second = Event(path="compute/a", count=2.0, unit="events", energy_j=1.0, raw_j=1.0)

    (total,) = summed(scaled([first], 3), [second])

    assert total == Event(path="compute/a", count=5.0, unit="events", energy_j=13.0, raw_j=4.0)
    assert kappa([total]) == {"compute": 13 / 4}


def test_a_path_that_counts_two_things_cannot_be_summed():
    first = Event(path="compute/a", count=1.0, unit="bytes", energy_j=1.0)

    with pytest.raises(ConfigError, match="'compute/a' counts bytes in one group and cycles"):
        summed([first], [replace(first, unit="cycles")])


@given(works=st.lists(groups(), min_size=1, max_size=4))
def test_sums_over_groups_keep_every_joule(works):
    found = [events(work, processor) for work in works for processor in PROCESSORS]

    total = summed(*found)

    for component in COMPONENTS:
        expected_j = len(PROCESSORS) * fsum(getattr(w.energy, f"{component}_j") for w in works)
        assert energy_j(total, component) == pytest.approx(expected_j, rel=1e-9, abs=0)


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda one: one.family)
def test_each_family_shows_at_least_fifteen_events_in_three_levels(processor):
    work = group(gemm(512, 512, 512), streaming(4e6, 4e6, flop=1e6), energy=ONE)

    paths = {event.path for event in events(work, processor)}

    assert len(paths) >= 15
    assert {len(path.split("/")) for path in paths} == {3}
    assert {path.partition("/")[0] for path in paths} == set(COMPONENTS)


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda one: one.family)
@given(work=groups(), times=st.integers(2, 9))
def test_events_go_with_the_number_of_runs(processor, work, times):
    raw = ARCHITECTURES[processor.family]
    more = replace(
        work,
        count=work.count * times,
        read_b=work.read_b * times,
        weight_b=work.weight_b * times,
        written_b=work.written_b * times,
        device_s=work.device_s * times,
        wait_s=work.wait_s * times,
    )

    before, after = raw(work, processor), raw(more, processor)

    # Bytes are differences of the operators' own, which leave some digits of a double.
    rounding = 1e-3 + 1e-11 * sum(operator.moved_b for operator in work.operators)
    assert [event.path for event in before] == [event.path for event in after]
    for few, many in zip(before, after, strict=True):
        assert many.count == pytest.approx(times * few.count, rel=1e-3, abs=rounding), few.path


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda one: one.family)
@given(
    sides=st.tuples(*[st.integers(1, 3000)] * 3),
    grown=st.sampled_from([0, 1, 2]),
    extra=st.integers(1, 500),
    pipe=st.sampled_from(["fp32", "tensor_bf16"]),
)
def test_a_larger_product_never_has_fewer_events(processor, sides, grown, extra, pipe):
    raw = ARCHITECTURES[processor.family]
    larger = [side + extra * (i == grown) for i, side in enumerate(sides)]

    before = raw(group(gemm(*sides, pipe=pipe)), processor)
    after = raw(group(gemm(*larger, pipe=pipe)), processor)

    for few, many in zip(before, after, strict=True):
        assert many.raw_j >= few.raw_j * (1 - 1e-9), few.path
